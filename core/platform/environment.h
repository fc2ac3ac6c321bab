// The process's environment variables, read once at the edge and injected from there (L10: never
// written).
#ifndef MUSTER_CORE_PLATFORM_ENVIRONMENT_H_
#define MUSTER_CORE_PLATFORM_ENVIRONMENT_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace muster {

// An immutable set of variables. Thread-safe.
class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  // The process's own, copied now.
  static Environment OfProcess();

  // Environment(Environment::Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}})
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}

  // The value, or nullopt where the variable is not set. A variable that is set to nothing is "".
  std::optional<std::string> Get(absl::string_view name) const;

  const Variables& variables() const { return variables_; }

 private:
  Variables variables_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_ENVIRONMENT_H_
