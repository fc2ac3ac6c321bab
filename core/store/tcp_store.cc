#include "muster/core/store/tcp_store.h"

#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/debugging/leak_check.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/store/client_core.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/frame_stream.h"
#include "muster/core/store/heartbeat.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/tcp_handshake.h"
#include "muster/core/store/wire.h"

namespace muster {
namespace store_internal {
namespace {

// How long a goodbye may take.
constexpr absl::Duration kGoodbye = absl::Seconds(1);

}  // namespace

// The connection, on the control thread.
class TcpChannel final : public ClientCore::Channel,
                         public std::enable_shared_from_this<TcpChannel> {
 public:
  TcpChannel(ControlThread* control, std::weak_ptr<ClientCore> core, std::string server,
             absl::Duration heartbeat_timeout)
      : control_(control),
        core_(std::move(core)),
        server_(std::move(server)),
        heartbeat_timeout_(heartbeat_timeout),
        fork_generation_(ForkGeneration()) {}

  // On the control thread. Takes `fd`.
  void Start(int fd, int family, std::optional<FrameSeal> seal) {
    stream_ = FrameStream::Create(control_->context(), fd, family, kMaxResponseBytes,
                                  kMaxQueuedForServer);
    if (seal.has_value()) stream_->StartSealing(*std::move(seal));
    stream_->Start(
        [weak = weak_from_this()](absl::string_view body) {
          const auto self = weak.lock();
          return self == nullptr ? absl::CancelledError("its store was destroyed")
                                 : self->OnFrame(body);
        },
        [weak = weak_from_this()](const absl::Status& why) {
          if (const auto self = weak.lock()) self->OnClosed(why);
        });
    // No network lies between: while its process is there, a silent server is one that is paused
    // (Ctrl-Z on the launcher), and it ends with its connection.
    server_may_pause_ = family == AF_UNIX;
    // So that the server and the other ranks learn why this one goes, too.
    stream_->set_last_word([](const absl::Status& why) {
      return absl::IsDataLoss(why) || absl::IsInvalidArgument(why) ? EncodeFrame(Refused{why}) : "";
    });
    last_beat_ = control_->Now();
    if (heartbeat_timeout_ != absl::InfiniteDuration()) Beat();
  }

  // Thread-safe.
  void Send(Request request) override {
    if (fork_generation_ != ForkGeneration()) return;  // the parent's connection
    std::string frame = EncodeFrame(request);
    // At once where that keeps the order: before Start has run, requests wait behind it.
    if (control_->RunsHere() && stream_ != nullptr) {
      return SendFrame(std::move(frame), request.type, request.id);
    }
    control_->Post([self = shared_from_this(), frame = std::move(frame), type = request.type,
                    id = request.id]() mutable { self->SendFrame(std::move(frame), type, id); });
  }

  // On the control thread: the last word of a store that is destroyed.
  void Goodbye() {
    control_->Cancel(beat_timer_);
    if (stream_ == nullptr) return;
    if (leave_id_ == 0 && stream_->is_open()) {
      Request leave;
      leave.type = Request::Type::kLeave;
      stream_->Send(EncodeFrame(leave));
    }
    if (left_) return stream_->Abandon();
    stream_->Finish();
    control_->PostAt(control_->Now() + kGoodbye, [stream = stream_] { stream->Abandon(); });
  }

 private:
  void SendFrame(std::string frame, Request::Type type, uint64_t id) {
    if (type == Request::Type::kLeave) leave_id_ = id;
    stream_->Send(std::move(frame));
  }

  absl::Status OnFrame(absl::string_view body) {
    silence_ = absl::ZeroDuration();
    absl::StatusOr<Message> message = DecodeBody(body);
    if (!message.ok()) return message.status();
    if (const Refused* refused = std::get_if<Refused>(&*message)) {
      return absl::UnavailableError(
          absl::StrCat("it ended this connection: ", refused->status.message()));
    }
    Response* response = std::get_if<Response>(&*message);
    if (response == nullptr) return absl::InvalidArgumentError("it sent what is no response");
    // Nothing follows the answer to Leave that anybody waits for: the connection may go at once.
    if (response->kind == Response::Kind::kAnswer && response->id != 0 &&
        response->id == leave_id_) {
      left_ = true;
    }
    if (const auto core = core_.lock()) core->Deliver(std::move(*response));
    return absl::OkStatus();
  }

  void OnClosed(const absl::Status& why) {
    control_->Cancel(beat_timer_);
    if (const auto core = core_.lock()) {
      core->Fail(absl::UnavailableError(
          absl::StrCat("the store (", server_, ") was lost: ", why.message())));
    }
  }

  // Each tenth of the timeout: a sign of life, and a look at the server's. As on its side, silence
  // is counted in regular steps: a pause of this process is not held against the server.
  void Beat() {
    const absl::Duration beat = BeatOf(heartbeat_timeout_);
    const absl::Time now = control_->Now();
    silence_ += std::clamp(now - last_beat_, absl::ZeroDuration(), 2 * beat);
    last_beat_ = now;
    if (silence_ > heartbeat_timeout_ && !server_may_pause_) {
      return stream_->Close(absl::UnavailableError(
          absl::StrCat("no sign of life for ", absl::FormatDuration(heartbeat_timeout_))));
    }
    stream_->Send(EncodeFrame(Request()));
    beat_timer_ = control_->PostAt(now + beat, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      // Through the queue once more: what has arrived meanwhile is read before anybody is judged.
      self->control_->Post([weak] {
        const auto channel = weak.lock();
        if (channel != nullptr && channel->stream_->is_open()) channel->Beat();
      });
    });
  }

  ControlThread* const control_;
  const std::weak_ptr<ClientCore> core_;
  const std::string server_;
  const absl::Duration heartbeat_timeout_;
  const uint64_t fork_generation_;
  std::shared_ptr<FrameStream> stream_;
  bool server_may_pause_ = false;
  absl::Time last_beat_;
  absl::Duration silence_ = absl::ZeroDuration();
  Executor::TimerId beat_timer_ = 0;
  uint64_t leave_id_ = 0;  // of the request, once it is on its way
  bool left_ = false;
};

}  // namespace store_internal

using store_internal::ClientCore;
using store_internal::HandshakeOptions;
using store_internal::HandshakeResult;
using store_internal::TcpChannel;

absl::StatusOr<std::unique_ptr<TcpStore>> TcpStore::Connect(const Options& options) {
  if (options.control_thread == nullptr) {
    return absl::InvalidArgumentError("TcpStore::Connect needs a control thread");
  }
  if (options.control_thread->RunsHere()) {
    return absl::FailedPreconditionError(
        "TcpStore::Connect waits for the server: call it on another thread than the control "
        "thread");
  }
  HandshakeOptions handshake;
  handshake.address = options.address;
  handshake.token = options.token;
  handshake.session = options.session;
  handshake.heartbeat_timeout = options.heartbeat_timeout > absl::ZeroDuration()
                                    ? options.heartbeat_timeout
                                    : absl::InfiniteDuration();
  handshake.deadline = options.deadline;
  absl::StatusOr<HandshakeResult> opened = store_internal::OpenSession(handshake);
  if (!opened.ok()) return opened.status();

  std::string server = opened->served_by.empty()
                           ? absl::StrCat("at ", options.address)
                           : absl::StrCat(opened->served_by, ", at ", options.address);
  auto core = std::make_shared<ClientCore>(options.control_thread);
  auto channel = std::make_shared<TcpChannel>(options.control_thread, core, server,
                                              handshake.heartbeat_timeout);
  core->SetChannel(channel);
  options.control_thread->Post([channel, fd = opened->fd, family = opened->family,
                                seal = std::move(opened->seal),
                                guard = std::move(opened->guard)]() mutable {
    channel->Start(fd, family, std::move(seal));  // which has a guard of its own
    guard.Reset();
  });
  return std::unique_ptr<TcpStore>(new TcpStore(options.control_thread, std::move(core),
                                                std::move(channel), std::move(server),
                                                std::move(opened->local_host)));
}

TcpStore::TcpStore(ControlThread* control, std::shared_ptr<ClientCore> core,
                   std::shared_ptr<TcpChannel> channel, std::string server, std::string local_host)
    : ClientStore(std::move(core)),
      control_(control),
      fork_generation_(ForkGeneration()),
      server_(std::move(server)),
      local_host_(std::move(local_host)),
      channel_(std::move(channel)) {}

TcpStore::~TcpStore() {
  if (fork_generation_ != ForkGeneration()) {
    // A forked child: nothing here may touch the event loop, whose thread is the parent's.
    absl::IgnoreLeak(new std::shared_ptr<TcpChannel>(channel_));
    LeakCore();
    return;
  }
  core().Shutdown(absl::CancelledError("the store's client was destroyed"));
  if (control_->RunsHere()) {
    channel_->Goodbye();
    return;
  }
  // Waits for our own thread, so that the goodbye is on its way when this returns: a new session of
  // this rank that is opened next comes after it.
  auto said = std::make_shared<absl::Notification>();
  control_->Post([channel = channel_, said] {
    channel->Goodbye();
    said->Notify();
  });
  said->WaitForNotificationWithTimeout(store_internal::kGoodbye);
}

}  // namespace muster
