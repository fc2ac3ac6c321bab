// A connection that carries frames, on a control thread's io_context. Both ends of the TCP store
// use it.
#ifndef MUSTER_CORE_STORE_FRAME_STREAM_H_
#define MUSTER_CORE_STORE_FRAME_STREAM_H_

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "asio/generic/stream_protocol.hpp"
#include "asio/io_context.hpp"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/queue_account.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {

// Everything but Create runs on the io_context's thread. Held by shared_ptr: pending I/O keeps it.
class FrameStream : public std::enable_shared_from_this<FrameStream> {
 public:
  // The message of each frame. An error closes the connection with it. Frames that are complete are
  // not handed out after Close.
  using OnFrame = absl::AnyInvocable<absl::Status(absl::string_view message)>;
  // The frame to send before this side ends the connection because of what came over it: DataLoss
  // (see FrameSeal), InvalidArgument (no frame of ours, or too long a one), or an error of OnFrame.
  // It is sent where the socket takes it at once. Empty: nothing.
  using LastWord = absl::AnyInvocable<std::string(const absl::Status& why)>;
  // Once, from a task of its own; never after Abandon.
  using OnClosed = absl::AnyInvocable<void(const absl::Status& why)>;

  // Takes `fd`, a connected non-blocking close-on-exec socket of `family`. `max_queued`: bytes that
  // may wait for a peer that does not read before the connection is closed. `account`: where they
  // are counted together with those of other streams; shared parts count in it by themselves.
  static std::shared_ptr<FrameStream> Create(
      asio::io_context& context, int fd, int family, size_t max_message, size_t max_queued,
      std::shared_ptr<QueueAccount> account = std::make_shared<QueueAccount>());
  ~FrameStream();

  void Start(OnFrame on_frame, OnClosed on_closed);
  void set_last_word(LastWord last_word) { last_word_ = std::move(last_word); }

  // From the next frame on, in both directions, each ends with its seal.
  void StartSealing(FrameSeal seal);

  // How long a message of the peer may be from now on.
  void set_max_message(size_t max_message);

  // Writes at once what the socket takes and the rest later. Never calls back from inside.
  void Send(FrameParts frame);
  void Send(std::string frame) { Send(FrameParts{std::move(frame), nullptr, ""}); }

  // Lets what was sent go out, then says goodbye and waits for the peer's; `on_closed` follows
  // then.
  void Finish();

  // Ends it now; `on_closed` gets `why`.
  void Close(const absl::Status& why);

  // Ends it now, without a word to anybody.
  void Abandon();

  // Whether something has arrived, data or the end, that has not been read yet.
  bool HasInput() const;

  bool is_open() const { return !closed_; }
  size_t queued() const { return queued_; }  // bytes that wait for the peer

 private:
  FrameStream(asio::io_context& context, int fd, int family, size_t max_message, size_t max_queued,
              std::shared_ptr<QueueAccount> account);

  void Read();
  void OnRead(const asio::error_code& error, size_t size);
  // The next message of what has come; nothing when it is not complete.
  absl::StatusOr<std::optional<absl::string_view>> NextMessage();
  void Refuse(const absl::Status& why);
  void Write();
  // What the socket takes of the queue at once, counted as send does.
  ssize_t WriteOnce();
  void PopFront();
  void ClearQueue();
  void ShutDown();
  void CloseSocket();

  asio::io_context& context_;
  asio::generic::stream_protocol::socket socket_;
  ForkGuardedFd fork_guard_;
  const int fd_;
  FrameReader reader_;
  std::optional<FrameSeal> seal_;
  size_t max_message_;
  const size_t max_queued_;
  const std::shared_ptr<QueueAccount> account_;
  LastWord last_word_;
  OnFrame on_frame_;
  OnClosed on_closed_;
  std::string input_;
  std::deque<FrameParts> queue_;
  size_t sent_ = 0;    // of the first one
  size_t queued_ = 0;  // bytes of all
  bool writing_ = false;
  bool finishing_ = false;
  bool closed_ = false;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_FRAME_STREAM_H_
