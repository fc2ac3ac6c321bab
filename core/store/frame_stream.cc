#include "muster/core/store/frame_stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/error.hpp"
#include "asio/post.hpp"

namespace muster::store_internal {
namespace {

using Socket = asio::generic::stream_protocol::socket;

constexpr size_t kReadBytes = 64 << 10;

absl::Status Unavailable(absl::string_view what) { return absl::UnavailableError(what); }

absl::Status FromAsio(const asio::error_code& error) {
  if (error == asio::error::eof) return Unavailable("connection closed");
  if (error == asio::error::connection_reset || error == asio::error::broken_pipe) {
    return Unavailable("connection reset");
  }
  return Unavailable(absl::StrCat("connection failed: ", error.message()));
}

}  // namespace

std::shared_ptr<FrameStream> FrameStream::Create(asio::io_context& context, int fd, int family,
                                                 size_t max_message, size_t max_queued,
                                                 std::shared_ptr<QueueAccount> account) {
  return std::shared_ptr<FrameStream>(
      new FrameStream(context, fd, family, max_message, max_queued, std::move(account)));
}

FrameStream::FrameStream(asio::io_context& context, int fd, int family, size_t max_message,
                         size_t max_queued, std::shared_ptr<QueueAccount> account)
    : context_(context),
      socket_(context),
      fork_guard_(fd),
      fd_(fd),
      reader_(max_message),
      max_message_(max_message),
      max_queued_(max_queued),
      account_(std::move(account)) {
  asio::error_code error;
  // What these return stands in `error`, too.
  (void)socket_.assign(asio::generic::stream_protocol(family, 0), fd, error);
  if (!error) (void)socket_.non_blocking(true, error);
  if (error) {
    // Only when the system has no more room to watch descriptors.
    if (!socket_.is_open()) close(fd);
    CloseSocket();
    closed_ = true;
  }
}

FrameStream::~FrameStream() { ClearQueue(); }

void FrameStream::Start(OnFrame on_frame, OnClosed on_closed) {
  on_frame_ = std::move(on_frame);
  on_closed_ = std::move(on_closed);
  if (closed_) {
    closed_ = false;
    return Close(absl::ResourceExhaustedError("the system cannot watch one more connection"));
  }
  Read();
}

void FrameStream::Read() {
  // No more for a stranger than it may say.
  input_.resize(std::min(kReadBytes, max_message_));
  socket_.async_read_some(asio::buffer(input_),
                          [self = shared_from_this()](const asio::error_code& error, size_t size) {
                            self->OnRead(error, size);
                          });
}

void FrameStream::OnRead(const asio::error_code& error, size_t size) {
  if (closed_) return;
  if (error == asio::error::eof && reader_.pending() > 0) {
    return Close(Unavailable(absl::StrCat("connection closed within a frame, after ",
                                          reader_.pending(), " bytes of it")));
  }
  if (error) return Close(FromAsio(error));
  reader_.Append(absl::string_view(input_.data(), size));
  while (!closed_) {
    const absl::StatusOr<std::optional<absl::string_view>> message = NextMessage();
    if (!message.ok()) return Refuse(message.status());
    if (!message->has_value()) break;
    const absl::Status status = on_frame_(**message);
    if (!status.ok()) return Refuse(status);
  }
  if (!closed_) Read();
}

absl::StatusOr<std::optional<absl::string_view>> FrameStream::NextMessage() {
  absl::StatusOr<std::optional<absl::string_view>> body = reader_.Next();
  // No seal covers the length before the whole frame is there, and nobody who seals sends too long
  // a one.
  if (!body.ok() && seal_.has_value()) return FrameSeal::Broken(body.status().message());
  if (!body.ok() || !body->has_value() || !seal_.has_value()) return body;
  const absl::StatusOr<absl::string_view> message = seal_->Open(**body);
  if (!message.ok()) return message.status();
  return std::make_optional(*message);
}

void FrameStream::Refuse(const absl::Status& why) {
  if (last_word_ != nullptr) {
    if (std::string frame = last_word_(why); !frame.empty()) Send(std::move(frame));
  }
  Close(why);
}

void FrameStream::StartSealing(FrameSeal seal) {
  seal_ = std::move(seal);
  set_max_message(max_message_);
}

void FrameStream::set_max_message(size_t max_message) {
  max_message_ = max_message;
  reader_.set_max_body(max_message + (seal_.has_value() ? FrameSeal::kBytes : 0));
}

void FrameStream::Send(FrameParts frame) {
  if (closed_ || finishing_) return;
  if (seal_.has_value()) {
    if (absl::Status sealed = seal_->Seal(&frame); !sealed.ok()) return Close(sealed);
  }
  queued_ += frame.size();
  account_->Add(frame.head.size() + frame.tail.size());
  queue_.push_back(std::move(frame));
  if (queued_ > max_queued_) {
    return Close(absl::ResourceExhaustedError(
        absl::StrCat("the other side does not read: ", queued_, " bytes wait for it, the limit is ",
                     max_queued_)));
  }
  if (!writing_) Write();
}

void FrameStream::Write() {
  // Directly while the socket takes it: an answer is on its way when Send returns.
  while (!queue_.empty()) {
    const ssize_t count = WriteOnce();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      // What the peer sent before it went is still to be read; reading finds the end, too.
      ClearQueue();
      return;
    }
    if (count < 0) break;
    sent_ += static_cast<size_t>(count);
    while (!queue_.empty() && sent_ >= queue_.front().size()) {
      sent_ -= queue_.front().size();
      PopFront();
    }
  }
  if (queue_.empty()) {
    if (finishing_) ShutDown();
    return;
  }
  writing_ = true;
  socket_.async_wait(Socket::wait_write,
                     [self = shared_from_this()](const asio::error_code& error) {
                       self->writing_ = false;
                       if (self->closed_) return;
                       if (error) return self->Close(FromAsio(error));
                       self->Write();
                     });
}

ssize_t FrameStream::WriteOnce() {
  constexpr size_t kParts = 48;
  iovec parts[kParts];
  size_t count = 0;
  size_t skip = sent_;
  const auto add = [&](absl::string_view part) {
    const size_t skipped = std::min(skip, part.size());
    skip -= skipped;
    part.remove_prefix(skipped);
    if (!part.empty()) parts[count++] = {const_cast<char*>(part.data()), part.size()};
  };
  for (auto frame = queue_.begin(); frame != queue_.end() && count + 3 <= kParts; ++frame) {
    add(frame->head);
    if (frame->shared != nullptr) add(*frame->shared);
    add(frame->tail);
  }
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  return sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void FrameStream::PopFront() {
  const FrameParts& frame = queue_.front();
  queued_ -= frame.size();
  account_->Remove(frame.head.size() + frame.tail.size());
  queue_.pop_front();
}

void FrameStream::ClearQueue() {
  while (!queue_.empty()) PopFront();
  sent_ = 0;
}

void FrameStream::Finish() {
  if (closed_ || finishing_) return;
  finishing_ = true;
  if (!writing_ && queue_.empty()) ShutDown();
}

void FrameStream::ShutDown() {
  asio::error_code ignored;
  (void)socket_.shutdown(Socket::shutdown_send, ignored);
}

void FrameStream::Close(const absl::Status& why) {
  if (closed_) return;
  CloseSocket();
  closed_ = true;
  // This may be called inside on_frame_, so that is let go of later, too.
  asio::post(context_, [self = shared_from_this(), why] {
    self->on_frame_ = nullptr;
    self->last_word_ = nullptr;
    OnClosed on_closed = std::move(self->on_closed_);
    if (on_closed) on_closed(why);
  });
}

void FrameStream::Abandon() {
  if (closed_) return;
  CloseSocket();
  closed_ = true;
  asio::post(context_, [self = shared_from_this()] {
    self->on_frame_ = nullptr;
    self->last_word_ = nullptr;
    self->on_closed_ = nullptr;
  });
}

void FrameStream::CloseSocket() {
  // Shut down first: a child that is being forked at this moment keeps a dead connection only.
  asio::error_code ignored;
  (void)socket_.shutdown(Socket::shutdown_both, ignored);
  fork_guard_.Reset();
  (void)socket_.close(ignored);
  ClearQueue();
}

bool FrameStream::HasInput() const {
  if (closed_) return false;
  pollfd poller = {fd_, POLLIN | POLLRDHUP, 0};
  return poll(&poller, 1, 0) > 0 && poller.revents != 0;
}

}  // namespace muster::store_internal
