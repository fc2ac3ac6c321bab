// Text on its way to a descriptor that may be slow, without blocking whoever writes.
#ifndef MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_
#define MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {

// Leaves the descriptor as it is: O_NONBLOCK would be everybody's who shares it. Pipes and
// terminals are opened once more instead, for this queue alone. Where that is refused (they belong
// to another user, as after su, or there is no /proc) the descriptor itself is written to in pieces
// for which poll() has just promised room: that holds while no other process fills it in between.
// Not thread-safe. The caller blocks or ignores SIGPIPE.
class OutputQueue {
 public:
  static constexpr size_t kFull = 1 << 18;

  // `fd` must outlive it.
  explicit OutputQueue(int fd);

  // To poll() for POLLOUT.
  int fd() const { return own_.valid() ? own_.get() : fd_; }
  absl::string_view pending() const { return absl::string_view(pending_).substr(written_); }
  bool empty() const { return pending_.empty(); }
  // Whoever fills it should wait; what is added all the same is kept.
  bool full() const { return pending_.size() >= kFull; }
  // It cannot be written to any more: its reader is gone (EPIPE), the disk is full. What was
  // pending is dropped, as is what is added.
  bool broken() const { return error_ != 0; }
  // The errno of it, 0 while it is not broken.
  int error() const { return error_; }

  void Add(absl::string_view text);

  // Writes a piece; to be called when poll() says POLLOUT. That is a hint and no promise: another
  // writer may be quicker, and a terminal may have room for less. What finds no room stays pending.
  // Pieces end with a line where they can, so that two queues into one pipe do not mix within
  // lines.
  void WriteSome();

  // Writes what is pending, and waits for room at most until `until` by MonotonicNow(). What has
  // found none stays pending.
  void WriteAll(absl::Time until);

  // Drops what is pending.
  void Drop();

 private:
  enum class Way {
    kWrite,  // a file, or a description of our own that does not block
    kSend,   // a socket
    kAsk,    // what may block: in small pieces, after a poll() of its own
  };

  // As write().
  ssize_t TryToWrite(absl::string_view piece) const;

  const int fd_;
  UniqueFd own_;
  Way way_ = Way::kWrite;
  size_t piece_;
  std::string pending_;
  size_t written_ = 0;  // of pending_
  int error_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_OUTPUT_QUEUE_H_
