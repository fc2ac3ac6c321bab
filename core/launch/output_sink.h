// Where the output of a job's ranks goes.
#ifndef MUSTER_CORE_LAUNCH_OUTPUT_SINK_H_
#define MUSTER_CORE_LAUNCH_OUTPUT_SINK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/line_prefixer.h"
#include "muster/core/launch/output_queue.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

enum class OutputStream { kOutput, kErrors };

// Called by the launcher's thread alone.
class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Bytes as they come: any piece of the stream.
  virtual void Write(int rank, OutputStream stream, absl::string_view bytes) = 0;
  // Nothing more comes of this stream. Once for each rank and stream.
  virtual void Finish(int rank, OutputStream stream) = 0;
  // What the launcher shall wait for and write on the sink's behalf.
  virtual std::vector<OutputQueue*> Queues() { return {}; }
  // How wide the terminal is that shows the ranks' standard output, so that they may redraw a
  // progress bar by carriage returns; 0 where there is none. The launcher tells them by
  // MUSTER_TERMINAL=1 and COLUMNS.
  virtual int columns() const { return 0; }
};

// Whole lines with their rank before them, both streams kept apart. On a terminal the last line
// shows the progress bar that was redrawn last; the lines of all ranks pass above it.
class PrefixedOutput final : public OutputSink {
 public:
  PrefixedOutput(int ranks, int output_fd, int errors_fd);

  void Write(int rank, OutputStream stream, absl::string_view bytes) override;
  void Finish(int rank, OutputStream stream) override;
  std::vector<OutputQueue*> Queues() override { return {&output_, &errors_}; }
  int columns() const override;

 private:
  struct Rank {
    LinePrefixer output;
    LinePrefixer errors;
  };

  OutputQueue& Queue(OutputStream stream) {
    return stream == OutputStream::kOutput || errors_join_output_ ? output_ : errors_;
  }
  LinePrefixer& Prefixer(int rank, OutputStream stream);
  // Queues `lines` of a stream, with the bar taken away before them and drawn again below.
  void Show(int rank, OutputStream stream, absl::string_view lines);

  const int terminal_;  // its descriptor; -1 for none
  // One screen shows both: one queue keeps the bar below all lines.
  const bool errors_join_output_;
  std::vector<Rank> ranks_;
  int bar_rank_ = -1;  // whose bar is on the screen
  std::string bar_;    // the bar itself; "" for none
  OutputQueue output_;
  OutputQueue errors_;
};

// One file a rank, both streams in it, written at once: kept whatever becomes of the launcher.
class RankLogs final : public OutputSink {
 public:
  // folder/rank0.log, ...; what was there is replaced.
  static absl::StatusOr<std::unique_ptr<RankLogs>> Create(const std::string& folder, int ranks);

  void Write(int rank, OutputStream stream, absl::string_view bytes) override;
  void Finish(int, OutputStream) override {}

  const std::string& path(int rank) const { return logs_[static_cast<size_t>(rank)].path; }

 private:
  struct Log {
    std::string path;
    UniqueFd fd;
  };

  RankLogs() = default;
  std::vector<Log> logs_;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_OUTPUT_SINK_H_
