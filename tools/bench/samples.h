// What the ranks measured, on its way to the process that started them: a line a sample.
//
//   create_destroy_2_ranks<TAB>muster/gloo<TAB>2143.5<TAB>us
#ifndef MUSTER_TOOLS_BENCH_SAMPLES_H_
#define MUSTER_TOOLS_BENCH_SAMPLES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace bench {

// The unit of times; another one is text for the table and the JSON: "requests/rank".
inline constexpr absl::string_view kMicroseconds = "us";

struct Sample {
  std::string case_name;  // "create_destroy_2_ranks"
  std::string subject;    // "muster/gloo"
  double value = 0;
  std::string unit = std::string(kMicroseconds);
};

std::string FormatSamples(const std::vector<Sample>& samples);

// InvalidArgument names the line and what was seen: a file that was cut short is no result.
absl::StatusOr<std::vector<Sample>> ParseSamples(absl::string_view text);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_SAMPLES_H_
