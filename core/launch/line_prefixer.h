// Puts "[3] " before each line of a rank's output, so that the lines of many ranks can be told
// apart.
//
//   LinePrefixer prefixer(3);
//   prefixer.Add("loss 0.", &out);     // nothing yet: a line is never mixed with another rank's
//   prefixer.Add("3\nacc", &out);      // "[3] loss 0.3\n"
//   prefixer.Finish(&out);             // "[3] acc\n"
#ifndef MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_
#define MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Pure. Bytes pass unchanged; a line longer than kMaxLine comes in pieces, each a line of its own.
class LinePrefixer {
 public:
  static constexpr size_t kMaxLine = 1 << 16;

  explicit LinePrefixer(int rank);

  // Appends to `out` the lines that `bytes` completes.
  void Add(absl::string_view bytes, std::string* out);
  // Appends what is left of a last line without an end, and ends it.
  void Finish(std::string* out);

 private:
  void Emit(std::string* out);

  const std::string prefix_;
  std::string partial_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_
