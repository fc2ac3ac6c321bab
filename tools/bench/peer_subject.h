// A library that is not linked in: a process of its own a rank, told what to do over two FIFOs.
//
// The process reads commands from PREFIX.RANK.in (cycle; open; close; all_reduce COUNT ITERATIONS)
// and writes to PREFIX.RANK.out: once "ok 0" when it is ready, and to each command "ok NANOSECONDS"
// or "error TEXT", a line each. It ends when the commands end, which they do when bench is gone,
// too.
#ifndef MUSTER_TOOLS_BENCH_PEER_SUBJECT_H_
#define MUSTER_TOOLS_BENCH_PEER_SUBJECT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/environment.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {

// PREFIX.RANK.in and .out of every rank: before any process is started.
absl::Status MakePeerFifos(const std::string& prefix, int ranks);

class PeerSubject final : public Subject {
 public:
  struct Setup {
    std::string name;
    std::string prefix;  // of the FIFOs
    int rank = 0;
    // What to start; empty where another rank's process starts this one's.
    std::vector<std::string> command;
    Environment environment{{}};
    absl::Duration step_timeout = kStepTimeout;
  };

  // Does not wait for the process: WaitUntilReady does, so that all peers start at the same time.
  static absl::StatusOr<std::unique_ptr<PeerSubject>> Start(const Setup& setup);
  // Ends the commands, gives the process 5 s to go, and kills it then.
  ~PeerSubject() override;

  // Importing a large library from a cold disk takes its time.
  absl::Status WaitUntilReady(absl::Duration timeout);

  const std::string& name() const override { return setup_.name; }
  absl::StatusOr<absl::Duration> CreateAndDestroy() override { return Ask("cycle"); }
  absl::Status Open() override { return Ask("open").status(); }
  absl::Status Close() override { return Ask("close").status(); }
  absl::StatusOr<absl::Duration> AllReduce(int64_t count, int iterations) override;

 private:
  explicit PeerSubject(const Setup& setup) : setup_(setup) {}
  absl::StatusOr<absl::Duration> Ask(absl::string_view command, int steps = 1);
  absl::StatusOr<absl::Duration> Answer(absl::string_view what, absl::Duration timeout);
  absl::StatusOr<std::string> ReadLine(absl::string_view what, absl::Time deadline);
  // Empty while the process runs, or where it is not ours.
  std::string HowItEnded();

  const Setup setup_;
  UniqueFd commands_;
  UniqueFd answers_;
  std::string read_;  // beyond the last line
  pid_t pid_ = -1;    // -1: none, or reaped
  std::string ended_;
};

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_PEER_SUBJECT_H_
