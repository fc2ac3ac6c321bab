#include "muster/core/launch/output_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

// PIPE_BUF of Linux: what a pipe has room for when poll() says POLLOUT.
constexpr size_t kPiece = 4096;

}  // namespace

void OutputQueue::Add(absl::string_view text) {
  if (!broken_) absl::StrAppend(&pending_, text);
}

void OutputQueue::WriteSome() {
  if (empty()) return;
  absl::string_view piece = absl::string_view(pending_).substr(written_, kPiece);
  const size_t line = piece.rfind('\n');
  if (line != absl::string_view::npos) piece = piece.substr(0, line + 1);
  const ssize_t n = write(fd_, piece.data(), piece.size());
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return;
    broken_ = true;
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

void OutputQueue::Drop() {
  pending_.clear();
  written_ = 0;
}

}  // namespace muster
