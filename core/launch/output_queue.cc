#include "muster/core/launch/output_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/unique_fd.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

// PIPE_BUF of Linux: what a pipe has room for when poll() says POLLOUT, and takes whole or not at
// all.
constexpr size_t kPiece = 4096;
// The buffers of a terminal grow by 256 bytes, and the end of a line may take two of them.
constexpr size_t kTerminalPiece = 64;

// Another open file description of the same pipe or terminal, so that its flags are ours alone.
UniqueFd OpenAgain(int fd) {
  UniqueFd own(open(absl::StrCat("/proc/self/fd/", fd).c_str(),
                    O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  own.MoveAboveStandard();
  return own;
}

}  // namespace

OutputQueue::OutputQueue(int fd) : fd_(fd), piece_(kPiece) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return;
  const bool terminal = isatty(fd) == 1;
  if (S_ISSOCK(file.st_mode)) {
    way_ = Way::kSend;
  } else if (S_ISFIFO(file.st_mode) || terminal) {
    // Not a regular file, whose offset belongs to the description.
    own_ = OpenAgain(fd);
    if (own_.valid()) return;
    way_ = Way::kAsk;
    if (terminal) piece_ = kTerminalPiece;
  }
}

void OutputQueue::Add(absl::string_view text) {
  if (!broken()) absl::StrAppend(&pending_, text);
}

void OutputQueue::WriteSome() {
  if (empty()) return;
  absl::string_view piece = absl::string_view(pending_).substr(written_, piece_);
  const size_t line = piece.rfind('\n');
  if (line != absl::string_view::npos) piece = piece.substr(0, line + 1);
  const ssize_t n = TryToWrite(piece);
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    error_ = errno;
    Drop();
    return;
  }
  written_ += static_cast<size_t>(n);
  // Moving the rest down for each piece would be quadratic.
  if (written_ == pending_.size() || written_ >= kFull / 2) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

ssize_t OutputQueue::TryToWrite(absl::string_view piece) const {
  if (way_ == Way::kSend) {
    return send(fd_, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  pollfd ready = {fd_, POLLOUT, 0};
  if (way_ == Way::kAsk && poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return write(fd(), piece.data(), piece.size());
}

void OutputQueue::WriteAll(absl::Time until) {
  while (!empty()) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    constexpr int64_t kLongMs = 1000;
    const int64_t wait_ms = std::min(absl::ToInt64Milliseconds(left) + 1, kLongMs);
    pollfd ready = {fd(), POLLOUT, 0};
    if (poll(&ready, 1, static_cast<int>(wait_ms)) > 0) WriteSome();
  }
}

void OutputQueue::Drop() {
  pending_.clear();
  written_ = 0;
}

}  // namespace muster
