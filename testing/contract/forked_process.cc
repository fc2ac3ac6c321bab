#include "muster/testing/contract/forked_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::testing {
namespace {

constexpr size_t kLongest = 4096;

void Send(int fd, absl::string_view message) {
  message = message.substr(0, kLongest);
  while (send(fd, message.data(), message.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

// nullopt: the other end is gone, or with MSG_DONTWAIT, there is none yet.
std::optional<std::string> Receive(int fd, int flags) {
  std::string message(kLongest, '\0');
  ssize_t size = 0;
  do {
    size = recv(fd, message.data(), message.size(), flags);
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return std::nullopt;
  message.resize(static_cast<size_t>(size));
  return message;
}

int MillisecondsUntil(absl::Time deadline) {
  const absl::Duration left = std::max(deadline - MonotonicNow(), absl::ZeroDuration());
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(std::min(left, absl::Hours(1)), absl::Milliseconds(1))));
}

}  // namespace

void TestLink::Say(absl::string_view message) { Send(fd_.get(), message); }

std::string TestLink::Await() {
  std::optional<std::string> message = Receive(fd_.get(), 0);
  if (!message.has_value()) _exit(0);
  return *std::move(message);
}

absl::StatusOr<ForkedProcess> ForkedProcess::Start(const std::function<void(TestLink&)>& body) {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket pair for a process of the test");
  }
  UniqueFd ours(fds[0]);
  UniqueFd theirs(fds[1]);
  const pid_t test = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot fork a process of the test");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(1);
    ours.Reset();
    TestLink link(std::move(theirs));
    body(link);
    _exit(0);
  }
  return ForkedProcess(pid, std::move(ours));
}

ForkedProcess& ForkedProcess::operator=(ForkedProcess&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  fd_ = std::move(other.fd_);
  return *this;
}

void ForkedProcess::Tell(absl::string_view message) { Send(fd_.get(), message); }

std::optional<std::string> ForkedProcess::Hear(absl::Time deadline) {
  AwaitNews({this}, deadline);
  return Receive(fd_.get(), MSG_DONTWAIT);
}

void ForkedProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void AwaitNews(const std::vector<const ForkedProcess*>& processes, absl::Time deadline) {
  std::vector<pollfd> fds;
  fds.reserve(processes.size());
  for (const ForkedProcess* process : processes) fds.push_back({process->fd(), POLLIN, 0});
  while (poll(fds.data(), fds.size(), MillisecondsUntil(deadline)) < 0 && errno == EINTR) {
  }
}

}  // namespace muster::testing
