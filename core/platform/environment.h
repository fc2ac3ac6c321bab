// The process's environment variables, read once at the edge and injected from there (L10: never written).
#ifndef MUSTER_CORE_PLATFORM_ENVIRONMENT_H_
#define MUSTER_CORE_PLATFORM_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace muster {

// An immutable set of variables. Thread-safe.
class Environment {
 public:
  // The process's own, copied now.
  static Environment OfProcess();

  explicit Environment(std::map<std::string, std::string, std::less<>> variables) : variables_(std::move(variables)) {}

  // The value, or nullopt where the variable is not set. A variable that is set to nothing is "".
  std::optional<std::string> Get(absl::string_view name) const;

  const std::map<std::string, std::string, std::less<>>& variables() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_ENVIRONMENT_H_
