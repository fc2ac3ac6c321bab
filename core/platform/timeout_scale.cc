#include "muster/core/platform/timeout_scale.h"

#include <optional>
#include <string>

#include "absl/strings/numbers.h"

namespace muster {

double TimeoutScale(const Environment& environment) {
  const std::optional<std::string> text = environment.Get("MUSTER_TIMEOUT_SCALE");
  double scale = 1;
  if (!text.has_value() || !absl::SimpleAtod(*text, &scale)) return 1;
  if (!(scale >= 1)) return 1;  // NaN too
  return scale > 100 ? 100 : scale;
}

double TimeoutScale() { return TimeoutScale(Environment::OfProcess()); }

}  // namespace muster
