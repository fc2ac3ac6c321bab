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
};

// Whole lines with their rank before them, both streams kept apart.
class PrefixedOutput final : public OutputSink {
 public:
  PrefixedOutput(int ranks, int output_fd, int errors_fd);

  void Write(int rank, OutputStream stream, absl::string_view bytes) override;
  void Finish(int rank, OutputStream stream) override;
  std::vector<OutputQueue*> Queues() override { return {&output_, &errors_}; }

 private:
  struct Rank {
    LinePrefixer output;
    LinePrefixer errors;
  };

  OutputQueue& Queue(OutputStream stream) {
    return stream == OutputStream::kOutput ? output_ : errors_;
  }
  LinePrefixer& Prefixer(int rank, OutputStream stream);

  std::vector<Rank> ranks_;
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
