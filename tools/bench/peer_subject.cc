#include "muster/tools/bench/peer_subject.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/tools/process/child_process.h"

namespace muster {
namespace bench {
namespace {

std::string Fifo(absl::string_view prefix, int rank, absl::string_view direction) {
  return absl::StrCat(prefix, ".", rank, ".", direction);
}

}  // namespace

absl::Status MakePeerFifos(const std::string& prefix, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const char* direction : {"in", "out"}) {
      const std::string path = Fifo(prefix, rank, direction);
      if (mkfifo(path.c_str(), 0600) != 0) {
        return absl::ErrnoToStatus(errno, absl::StrCat("cannot make the FIFO ", path));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerSubject>> PeerSubject::Start(const Setup& setup) {
  std::unique_ptr<PeerSubject> peer = absl::WrapUnique(new PeerSubject(setup));
  const std::string in = Fifo(setup.prefix, setup.rank, "in");
  const std::string out = Fifo(setup.prefix, setup.rank, "out");
  // Reading ends are there from the beginning, so neither side waits in open(); and a write to a
  // process that is gone finds a reader, ourselves, and raises no SIGPIPE.
  peer->answers_ = UniqueFd(open(out.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  peer->commands_ = UniqueFd(open(in.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!peer->answers_.valid() || !peer->commands_.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat(setup.name, ": cannot open ", in, " and ", out));
  }
  if (!setup.command.empty()) {
    const absl::StatusOr<pid_t> pid = StartProcess(setup.command, setup.environment);
    if (!pid.ok()) {
      return absl::Status(pid.status().code(),
                          absl::StrCat(setup.name, ": ", pid.status().message()));
    }
    peer->pid_ = *pid;
  }
  return peer;
}

PeerSubject::~PeerSubject() {
  commands_.Reset();
  if (pid_ < 0) return;
  if (!WaitForProcess(pid_, MonotonicNow() + absl::Seconds(5)).has_value()) KillProcess(pid_);
}

absl::Status PeerSubject::WaitUntilReady(absl::Duration timeout) {
  return Answer("its start", timeout).status();
}

absl::StatusOr<absl::Duration> PeerSubject::AllReduce(int64_t count, int iterations) {
  return Ask(absl::StrCat("all_reduce ", count, " ", iterations), iterations + 2);
}

absl::StatusOr<absl::Duration> PeerSubject::Ask(absl::string_view command, int steps) {
  const std::string line = absl::StrCat(command, "\n");
  // Shorter than PIPE_BUF, and the process has read all before: whole or not at all.
  if (write(commands_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat(setup_.name, " does not take \"", command, "\""));
  }
  return Answer(command, steps * setup_.step_timeout);
}

absl::StatusOr<absl::Duration> PeerSubject::Answer(absl::string_view what, absl::Duration timeout) {
  const absl::StatusOr<std::string> line = ReadLine(what, MonotonicNow() + timeout);
  if (!line.ok()) return line.status();
  absl::string_view text = *line;
  int64_t nanoseconds = 0;
  if (absl::ConsumePrefix(&text, "ok ") && absl::SimpleAtoi(text, &nanoseconds)) {
    return absl::Nanoseconds(nanoseconds);
  }
  absl::ConsumePrefix(&text, "error ");
  return absl::UnavailableError(
      absl::StrCat(setup_.name, " failed at ", what, ": ", absl::Utf8SafeCHexEscape(text)));
}

absl::StatusOr<std::string> PeerSubject::ReadLine(absl::string_view what, absl::Time deadline) {
  bool last_look = false;
  for (;;) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    const absl::Time now = MonotonicNow();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(setup_.name, " did not answer in time to ", what));
    }
    // A process that ends before it opens the FIFO hangs up nothing: it is looked for now and then.
    pollfd ready = {answers_.get(), POLLIN, 0};
    const absl::Duration wait = std::min(deadline - now, absl::Milliseconds(100));
    poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
    char block[512];
    const ssize_t got = ready.revents == 0 ? 0 : read(answers_.get(), block, sizeof(block));
    if (got > 0) {
      read_.append(block, static_cast<size_t>(got));
      continue;
    }
    const bool hung_up = (ready.revents & POLLHUP) != 0;
    const std::string ended = HowItEnded();
    // Its last words may have come between the two looks.
    if (!hung_up && !ended.empty() && !std::exchange(last_look, true)) continue;
    if (hung_up || !ended.empty()) {
      return absl::UnavailableError(absl::StrCat(
          setup_.name, " ended in ", what, ended.empty() ? "" : absl::StrCat(" (", ended, ")")));
    }
  }
}

std::string PeerSubject::HowItEnded() {
  if (pid_ >= 0) {
    const std::optional<RankExit> exit = WaitForProcess(pid_, MonotonicNow());
    if (exit.has_value()) {
      ended_ = exit->ToString();
      pid_ = -1;
    }
  }
  return ended_;
}

}  // namespace bench
}  // namespace muster
