// Puts "[3] " before each line of a rank's output, so that the lines of many ranks can be told
// apart.
//
//   LinePrefixer prefixer(3);
//   prefixer.Add("loss 0.", &out);     // nothing yet: a line is never mixed with another rank's
//   prefixer.Add("3\nacc", &out);      // "[3] loss 0.3\n"
//   prefixer.Finish(&out);             // "[3] acc\n"
//
// A program on a terminal draws a progress bar over and over in one line, by carriage returns. For
// such an output, LinePrefixer(3, LinePrefixer::kRedraw):
//
//   prefixer.Add("\r10%\r20%", &out);   // nothing; prefixer.bar() is "[3] 20%"
//   prefixer.Add("\r   \rdone\n", &out);  // "[3] done\n"; prefixer.bar() is ""
#ifndef MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_
#define MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Pure. Bytes pass unchanged, but for what kRedraw drops; a line longer than kMaxLine comes in
// pieces, each a line of its own.
class LinePrefixer {
 public:
  static constexpr size_t kMaxLine = 1 << 16;

  enum Mode {
    kKeep,    // a carriage return is a byte as any other
    kRedraw,  // what follows it replaces what the line had before
  };

  explicit LinePrefixer(int rank, Mode mode = kKeep);

  // Appends to `out` the lines that `bytes` completes.
  void Add(absl::string_view bytes, std::string* out);
  // Appends what is left of a last line without an end, and ends it.
  void Finish(std::string* out);

  // With kRedraw: what the unfinished line shows, "" unless it has been redrawn.
  std::string bar() const;

 private:
  void Emit(std::string* out);
  // Forgets what the carriage return before the next byte takes back.
  void Redraw();

  const std::string prefix_;
  const Mode mode_;
  std::string partial_;
  bool redrawn_ = false;  // a carriage return was in this line
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LINE_PREFIXER_H_
