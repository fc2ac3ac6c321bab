#include "muster/tools/bench/samples.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace bench {

std::string FormatSamples(const std::vector<Sample>& samples) {
  std::string text;
  for (const Sample& sample : samples) {
    absl::StrAppendFormat(&text, "%s\t%s\t%.17g\t%s\n", sample.case_name, sample.subject,
                          sample.value, sample.unit);
  }
  return text;
}

absl::StatusOr<std::vector<Sample>> ParseSamples(absl::string_view text) {
  std::vector<Sample> samples;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    // The last line ends, too: what follows it is empty.
    if (i + 1 == lines.size() && lines[i].empty()) break;
    const std::vector<absl::string_view> fields = absl::StrSplit(lines[i], '\t');
    Sample sample;
    const bool good = fields.size() == 4 && !fields[0].empty() && !fields[1].empty() &&
                      absl::SimpleAtod(fields[2], &sample.value) && std::isfinite(sample.value) &&
                      !fields[3].empty() && i + 1 < lines.size();
    if (!good) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1, " of the samples is \"", absl::Utf8SafeCHexEscape(lines[i]),
                       "\": expected case, subject, value and unit, with tabs between them"));
    }
    sample.case_name = std::string(fields[0]);
    sample.subject = std::string(fields[1]);
    sample.unit = std::string(fields[3]);
    samples.push_back(sample);
  }
  return samples;
}

}  // namespace bench
}  // namespace muster
