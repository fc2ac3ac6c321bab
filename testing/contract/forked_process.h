// A process of a test that may be killed and started again: a fork of the test's own, which must
// have one thread, with messages both ways.
//
//   absl::StatusOr<ForkedProcess> rank = ForkedProcess::Start([](TestLink& link) {
//     link.Say("ready");
//     while (link.Await() != "go") {
//     }
//   });
//   rank->Hear(MonotonicNow() + absl::Seconds(10));  // "ready"
//   rank->Kill();
#ifndef MUSTER_TESTING_CONTRACT_FORKED_PROCESS_H_
#define MUSTER_TESTING_CONTRACT_FORKED_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/unique_fd.h"

namespace muster::testing {

// The child's end. For one thread.
class TestLink {
 public:
  explicit TestLink(UniqueFd fd) : fd_(std::move(fd)) {}

  // Both end the process when the test has ended.
  void Say(absl::string_view message);
  std::string Await();

 private:
  UniqueFd fd_;
};

// The test's end. Its destructor is Kill().
class ForkedProcess {
 public:
  // The child ends when `body` returns, without destructors and hooks, or when the test does.
  static absl::StatusOr<ForkedProcess> Start(const std::function<void(TestLink&)>& body);

  ForkedProcess() = default;
  ForkedProcess(ForkedProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), fd_(std::move(other.fd_)) {}
  ForkedProcess& operator=(ForkedProcess&& other) noexcept;
  ~ForkedProcess() { Kill(); }

  pid_t pid() const { return pid_; }
  int fd() const { return fd_.get(); }  // readable when there is something to hear

  void Tell(absl::string_view message);
  // The next message; nullopt when there is none by `deadline` (of MonotonicNow), or none will come
  // since the process has ended.
  std::optional<std::string> Hear(absl::Time deadline);

  // SIGKILL, and the end of it. What it has said before can still be heard.
  void Kill();

  // For another child of the test: its copy is none of its business, and killing least of all.
  void Forget() {
    pid_ = -1;
    fd_.Reset();
  }

 private:
  ForkedProcess(pid_t pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}

  pid_t pid_ = -1;
  UniqueFd fd_;
};

// Waits until one of them has something to hear, or has ended, at most until `deadline`.
void AwaitNews(const std::vector<const ForkedProcess*>& processes, absl::Time deadline);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FORKED_PROCESS_H_
