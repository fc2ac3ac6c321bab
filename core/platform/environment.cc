#include "muster/core/platform/environment.h"

#include <unistd.h>

namespace muster {

Environment Environment::OfProcess() {
  Variables variables;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const absl::string_view text = *line;
    // Some programs put names that start with '=' there; such a line is no variable of ours.
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos || equals == 0) continue;
    // As getenv does: of two lines with one name the first counts.
    variables.emplace(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
  }
  return Environment(std::move(variables));
}

std::optional<std::string> Environment::Get(absl::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end()) return std::nullopt;
  return found->second;
}

}  // namespace muster
