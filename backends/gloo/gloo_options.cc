#include "muster/backends/gloo/gloo_options.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int64_t kSmallestSegment = 1024;
constexpr int64_t kLargestSegment = 1 << 30;

}  // namespace

absl::StatusOr<GlooOptions> GlooOptions::Parse(const std::map<std::string, std::string>& options) {
  GlooOptions result;
  for (const auto& [name, value] : options) {
    if (name == "all_reduce") {
      if (value != "ring" && value != "bcube") {
        return absl::InvalidArgumentError(
            absl::StrCat("option \"all_reduce\" of the backend \"gloo\" is \"", value,
                         "\": it takes ring or bcube"));
      }
      result.all_reduce = value == "ring" ? AllReduce::kRing : AllReduce::kBcube;
    } else if (name == "segment_bytes") {
      if (!absl::SimpleAtoi(value, &result.segment_bytes) ||
          result.segment_bytes < kSmallestSegment || result.segment_bytes > kLargestSegment) {
        return absl::InvalidArgumentError(absl::StrCat(
            "option \"segment_bytes\" of the backend \"gloo\" is \"", value,
            "\": it takes a whole number from ", kSmallestSegment, " to ", kLargestSegment));
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat("the backend \"gloo\" has no option \"", name,
                                                     "\": it has all_reduce, segment_bytes"));
    }
  }
  return result;
}

}  // namespace muster
