// Tells a human how a stage goes: a bar where the output is a terminal, plain lines where it is a
// file or a pipe.
//
//   fit 2/5 [===========>            ] 215/430  loss 0.4312  accuracy 0.8493  20311 samples/s
//
//   fit 2/5: loss 0.4312, accuracy 0.8493, 20311 samples/s, 2.7 s
#ifndef MUSTER_TRAINER_PROGRESS_H_
#define MUSTER_TRAINER_PROGRESS_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/environment.h"
#include "muster/trainer/metrics.h"

namespace muster {

// Where the text goes.
class ProgressOutput {
 public:
  virtual ~ProgressOutput() = default;
  // Whether a bar may be redrawn with carriage returns.
  virtual bool is_terminal() const = 0;
  // How many characters a line of the terminal takes; asked before each bar, which never fills one.
  virtual int columns() const { return kUsualColumns; }
  // noexcept: a bar is also taken away while an exception passes.
  virtual void Write(absl::string_view text) noexcept = 0;

  static constexpr int kUsualColumns = 80;

  // To `file`, which it borrows; a terminal when that is one, of the width it has.
  static std::unique_ptr<ProgressOutput> OfFile(std::FILE* file);
  // To stdout; a terminal when that is one, or when it goes through `muster run` to one
  // (MUSTER_TERMINAL=1). That one's width is COLUMNS, or the usual one, less the rank that comes
  // before each line.
  static std::unique_ptr<ProgressOutput> OfStandardOutput(const Environment& environment);
  // To absl's log at level INFO: the default of a library that otherwise prints nothing.
  static std::unique_ptr<ProgressOutput> OfLog();
};

// The bar and the lines. Not thread-safe. Silent where `output` is null, as on every rank but 0.
class Progress {
 public:
  // `now` is asked at each Update.
  Progress(ProgressOutput* output, std::function<absl::Time()> now)
      : output_(output), now_(std::move(now)) {}
  // Takes an unfinished bar away.
  ~Progress() { EraseBar(); }

  // Draws the bar of `label` ("fit 2/5") at `done` of `total` batches, at most ten times a second;
  // `sums` are this rank's so far. On a narrow terminal the bar is shorter, then the last numbers
  // are left out: a line that wraps could not be redrawn. Nothing without a terminal.
  void Update(absl::string_view label, int64_t done, int64_t total, const MetricSums& sums,
              double samples_per_second);

  // Takes the bar away and writes one line.
  void Line(absl::string_view text);

 private:
  void EraseBar();
  size_t Width() const;  // of what may be drawn

  ProgressOutput* const output_;
  const std::function<absl::Time()> now_;
  absl::Time next_draw_ = absl::InfinitePast();
  size_t drawn_ = 0;  // characters of the bar that is on the screen
};

}  // namespace muster

#endif  // MUSTER_TRAINER_PROGRESS_H_
