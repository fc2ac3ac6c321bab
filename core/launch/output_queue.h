// Text on its way to a descriptor that may be slow, without blocking whoever writes.
#ifndef MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_
#define MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Leaves the descriptor as it is: O_NONBLOCK would be everybody's who shares it. Not thread-safe.
// The caller blocks or ignores SIGPIPE.
class OutputQueue {
 public:
  static constexpr size_t kFull = 1 << 18;

  explicit OutputQueue(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  absl::string_view pending() const { return absl::string_view(pending_).substr(written_); }
  bool empty() const { return pending_.empty(); }
  // Whoever fills it should wait; what is added all the same is kept.
  bool full() const { return pending_.size() >= kFull; }
  // Its reader is gone. What was pending is dropped, as is what is added.
  bool broken() const { return broken_; }

  void Add(absl::string_view text);

  // Writes a piece; to be called when poll() says POLLOUT, which promises room for a piece. Pieces
  // end with a line where they can, so that two queues into one pipe do not mix within lines.
  void WriteSome();

  // Drops what is pending.
  void Drop();

 private:
  const int fd_;
  std::string pending_;
  size_t written_ = 0;  // of pending_
  bool broken_ = false;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_
