#include "muster/core/store/tcp_server_core.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <variant>

#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/limits.h"

namespace muster::store_internal {
namespace {

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// A greeting that has begun is over within moments. For lack of descriptors one that is not older
// is not broken off: the next would be, too.
constexpr absl::Duration kGreeting = absl::Seconds(1);
// How long a rank's new session waits for the end of its old one that is on its way already.
constexpr absl::Duration kSuccession = absl::Seconds(1);

// Without a descriptor accept fails before it looks.
bool SomebodyWaits(int listener) {
  pollfd poller = {listener, POLLIN, 0};
  return poll(&poller, 1, 0) > 0;
}

}  // namespace

// One client. Its stream's callbacks hold it weakly; the core's set holds it.
class TcpServerCore::Connection final : public StoreEngine::Sink,
                                        public std::enable_shared_from_this<Connection> {
 public:
  Connection(TcpServerCore* core, std::shared_ptr<FrameStream> stream, uint64_t number)
      : core_(core), stream_(std::move(stream)), number_(number), came_at_(core->control_->Now()) {}

  void Start() {
    // The core outlives its connections' callbacks: it lets go of each stream before it ends.
    deadline_ = core_->control_->PostAt(
        core_->control_->Now() + core_->options_.handshake_timeout, [weak = weak_from_this()] {
          const auto self = weak.lock();
          if (self == nullptr || self->session_ != 0) return;
          self->Close(&StoreServerStatistics::too_slow,
                      absl::DeadlineExceededError("it did not introduce itself in time"));
        });
    stream_->Start(
        [weak = weak_from_this()](absl::string_view body) {
          const auto self = weak.lock();
          return self == nullptr ? absl::CancelledError("stopped") : self->OnFrame(body);
        },
        [weak = weak_from_this()](const absl::Status& why) {
          if (const auto self = weak.lock()) self->OnClosed(why);
        });
    // A rank whose session ends for what came in its name is told.
    stream_->set_last_word([weak = weak_from_this()](const absl::Status& why) {
      const auto self = weak.lock();
      return self == nullptr || self->session_ == 0 ? "" : EncodeFrame(Refused{why});
    });
  }

  void Send(const Response& response) override {
    if (absl::IsResourceExhausted(response.status)) {
      ++core_->statistics_.over_limit;
      LOG_EVERY_N_SEC(WARNING, 10) << "the store refused a request: " << response.status.message();
    }
    std::string frame = EncodeFrame(response);
    core_->statistics_.bytes_sent += static_cast<int64_t>(MessageOf(frame).size());
    stream_->Send(std::move(frame));
  }

  bool HasInput() const { return stream_->HasInput(); }
  bool HasSpoken() const { return challenged_ || HasInput(); }
  absl::Time came_at() const { return came_at_; }
  StoreEngine::SessionId session() const { return session_; }
  bool HasLiveSession() const { return core_->engine_.LiveSession(rank_) == session_; }

  void Finish() { stream_->Finish(); }
  void Abandon() { stream_->Abandon(); }

  // `as`: what it is counted as.
  using Count = int64_t StoreServerStatistics::*;
  void Close(Count as, const absl::Status& why) {
    counted_as_ = as;
    stream_->Close(why);
  }

  // The session's end, for the engine: this is no sink of it any more.
  void Disconnect(absl::string_view why) {
    core_->control_->Cancel(deadline_);
    if (session_ != 0) core_->engine_.Disconnect(session_, why, core_->control_->Now());
  }

 private:
  // Texts of errors complete the sentence "its connection was ended: ..."
  absl::Status OnFrame(absl::string_view body) {
    absl::StatusOr<Message> message = DecodeBody(body);
    if (!message.ok()) return message.status();
    if (session_ != 0) {
      const Request* request = std::get_if<Request>(&*message);
      if (request == nullptr) return absl::InvalidArgumentError("it sent what is no request");
      ++core_->statistics_.requests;
      core_->statistics_.bytes_received += static_cast<int64_t>(body.size());
      core_->engine_.Handle(session_, *request, core_->control_->Now());
      core_->Changed();
      return absl::OkStatus();
    }
    if (const Hello* hello = std::get_if<Hello>(&*message); hello != nullptr && !challenged_) {
      return OnHello(*hello);
    }
    if (const Open* open = std::get_if<Open>(&*message);
        open != nullptr && challenged_ && !opening_) {
      return OnOpen(*open);
    }
    return absl::InvalidArgumentError("it sent something else than the next word of the greeting");
  }

  absl::Status OnHello(const Hello& hello) {
    if (hello.version != kWireVersion) {
      Refuse(&StoreServerStatistics::no_greeting,
             absl::FailedPreconditionError(absl::StrCat(
                 "the store speaks version ", kWireVersion, " of its protocol, this client ",
                 hello.version, ": build both from one version of muster")));
      return absl::OkStatus();
    }
    absl::StatusOr<std::string> nonce = RandomBytes(kNonceBytes);
    if (!nonce.ok()) return nonce.status();
    absl::StatusOr<std::string> proof = ServerProof(core_->options_.token, hello.nonce, *nonce);
    if (!proof.ok()) return proof.status();
    challenged_ = true;
    client_nonce_ = hello.nonce;
    server_nonce_ = *nonce;
    stream_->Send(EncodeFrame(Challenge{*std::move(nonce), *std::move(proof)}));
    return absl::OkStatus();
  }

  absl::Status OnOpen(Open open) {
    const std::string given = std::exchange(open.proof, "");
    const absl::StatusOr<std::string> expected =
        ClientProof(core_->options_.token, client_nonce_, server_nonce_, EncodeFrame(open));
    if (!expected.ok()) return expected.status();
    if (!SameProof(*expected, given)) {
      Refuse(&StoreServerStatistics::wrong_token,
             absl::PermissionDeniedError(
                 "the token is not this job's: give every rank the token of its launcher"));
      return absl::OkStatus();
    }
    // Nobody is between the two ends of a unix socket.
    if (core_->family_ != AF_UNIX) {
      absl::StatusOr<FrameSeal> seal = FrameSeal::Create(
          FrameSeal::Side::kServer, core_->options_.token, client_nonce_, server_nonce_);
      if (!seal.ok()) return seal.status();
      stream_->StartSealing(*std::move(seal));
    }
    opening_ = true;
    TryOpen(open, core_->control_->Now() + kSuccession);
    return absl::OkStatus();
  }

  void TryOpen(const Open& open, absl::Time give_up) {
    if (!stream_->is_open()) return;
    if (core_->draining_ || core_->closing_) {
      return Refuse(&StoreServerStatistics::not_let_in,
                    absl::UnavailableError("the store is closing: it takes no new sessions"));
    }
    const absl::StatusOr<StoreEngine::SessionId> session =
        core_->engine_.Open(open.session, open.heartbeat_timeout, this, core_->control_->Now());
    if (session.ok()) {
      session_ = *session;
      rank_ = open.session.rank;
      ++core_->statistics_.sessions;
      core_->strangers_.erase(number_);
      core_->control_->Cancel(deadline_);
      stream_->set_max_message(kMaxRequestBytes);
      stream_->Send(EncodeFrame(Welcome{core_->options_.served_by}));
      core_->EndAnEndedSession();
      return core_->Changed();
    }
    // The goodbye of this rank's session before, or its death, may have arrived and only wait to be
    // read: then the two do not live at once.
    if (absl::IsAlreadyExists(session.status()) && core_->control_->Now() < give_up &&
        core_->HasNewsOf(open.session.rank)) {
      return core_->control_->Post([weak = weak_from_this(), open, give_up] {
        if (const auto self = weak.lock()) self->TryOpen(open, give_up);
      });
    }
    if (!absl::IsUnavailable(session.status())) {
      core_->engine_.NoteRefusal(open.session, session.status());
      core_->Changed();
    }
    Refuse(&StoreServerStatistics::not_let_in, session.status());
  }

  void Refuse(Count as, const absl::Status& status) {
    counted_as_ = as;
    if (as != &StoreServerStatistics::not_let_in) {
      // A stranger must not be able to fill the log.
      LOG_EVERY_N_SEC(WARNING, 10) << "the store refused a stranger: " << status.message();
    } else if (!absl::IsUnavailable(status)) {
      // Who is told Unavailable tries again, and says so when it gives up.
      LOG(WARNING) << "the store refused a session: " << status.message();
    }
    opening_ = true;
    stream_->Send(EncodeFrame(Refused{status}));
    stream_->Finish();
  }

  // What its end is counted as, where that was not decided when it was ended; null: as nothing, an
  // ordinary end.
  Count CountOf(const absl::Status& why) const {
    if (counted_as_ != nullptr) return counted_as_;
    if (absl::IsDataLoss(why)) return &StoreServerStatistics::tampered;
    if (session_ == 0) {
      return absl::IsInvalidArgument(why) ? &StoreServerStatistics::no_greeting
                                          : &StoreServerStatistics::gone;
    }
    if (absl::IsInvalidArgument(why)) return &StoreServerStatistics::malformed;
    if (absl::IsResourceExhausted(why)) return &StoreServerStatistics::not_reading;
    return nullptr;
  }

  void OnClosed(const absl::Status& why) {
    const auto self = shared_from_this();
    if (const Count as = CountOf(why); as != nullptr) ++(core_->statistics_.*as);
    if (session_ != 0 && !absl::IsUnavailable(why)) {
      LOG_EVERY_N_SEC(WARNING, 10) << "the store ended a session: " << why.message();
    }
    core_->strangers_.erase(number_);
    // "its connection closed" when it went; when we ended it, why.
    const absl::string_view how = absl::IsUnavailable(why) ? "its " : "its connection was ended: ";
    Disconnect(absl::StrCat(how, why.message()));
    core_->Remove(self);
  }

  TcpServerCore* const core_;
  const std::shared_ptr<FrameStream> stream_;
  const uint64_t number_;  // in the order of arrival
  const absl::Time came_at_;
  StoreEngine::SessionId session_ = 0;
  int rank_ = 0;  // of the session
  Executor::TimerId deadline_ = 0;
  bool challenged_ = false;
  bool opening_ = false;
  Count counted_as_ = nullptr;
  std::string client_nonce_;
  std::string server_nonce_;
};

absl::StatusOr<std::shared_ptr<TcpServerCore>> TcpServerCore::Create(
    ControlThread* control, const TcpServerOptions& options, const Listener& listener) {
  asio::posix::stream_descriptor acceptor(control->context());
  asio::error_code error;
  // What it returns stands in `error`, too.
  (void)acceptor.assign(listener.fd, error);
  if (error) {
    close(listener.fd);
    if (!listener.path.empty()) unlink(listener.path.c_str());
    return absl::UnavailableError(absl::StrCat("the store cannot watch its port ",
                                               listener.ToString(), ": ", error.message()));
  }
  return std::shared_ptr<TcpServerCore>(
      new TcpServerCore(control, options, listener, std::move(acceptor)));
}

TcpServerCore::TcpServerCore(ControlThread* control, const TcpServerOptions& options,
                             const Listener& listener, asio::posix::stream_descriptor acceptor)
    : control_(control),
      options_(options),
      engine_(options.engine),
      acceptor_(std::move(acceptor)),
      listener_guard_(listener.fd),
      listener_fd_(listener.fd),
      family_(listener.family),
      path_(listener.path) {}

TcpServerCore::~TcpServerCore() { CloseListener(); }

void TcpServerCore::Begin() { Accept(); }

void TcpServerCore::Accept() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_wait(asio::posix::stream_descriptor::wait_read, [weak = weak_from_this()](
                                                                      const asio::error_code&
                                                                          error) {
    const auto self = weak.lock();
    if (error || self == nullptr || !self->acceptor_.is_open()) return;
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      const int fd = accept4(self->listener_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        self->Admit(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        const int error_number = errno;
        if (!SomebodyWaits(self->listener_fd_)) return self->Accept();
        if ((error_number == EMFILE || error_number == ENFILE) &&
            self->EndAStranger(kGreeting, "there were no descriptors for others")) {
          LOG_EVERY_N_SEC(WARNING, 10)
              << "the store has no descriptor for one more connection: those that do not introduce "
                 "themselves are closed; `ulimit -n` says how many descriptors there are";
          continue;
        }
        // Whoever waits in the queue is served as soon as there is room again.
        LOG_EVERY_N_SEC(WARNING, 10) << "the store cannot accept a connection: "
                                     << absl::ErrnoToStatus(error_number, "accept").message();
        self->accept_timer_ = self->control_->PostAt(self->control_->Now() + kAcceptPause, [weak] {
          if (auto core = weak.lock()) core->Accept();
        });
        return;
      } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EBADF) {
        return self->Accept();
      }
      // Else that one connection failed before it was accepted.
    }
    self->Accept();
  });
}

void TcpServerCore::Admit(int fd) {
  ++statistics_.connections;
  if (closing_ || !IsOurUsers(fd)) {
    close(fd);
    return;
  }
  if (strangers_.size() >= options_.max_strangers) {
    LOG_EVERY_N_SEC(WARNING, 10) << "the store has " << strangers_.size()
                                 << " connections that do not introduce themselves: the oldest are "
                                    "closed; what connects to its port?";
    EndAStranger(absl::ZeroDuration(), "too many others had not introduced themselves");
  }
  if (family_ != AF_UNIX) DisableDelay(fd);
  const uint64_t number = arrivals_++;
  auto connection =
      std::make_shared<Connection>(this,
                                   FrameStream::Create(control_->context(), fd, family_,
                                                       kMaxHandshakeBytes, options_.max_queued),
                                   number);
  connections_.insert(connection);
  strangers_[number] = connection;
  connection->Start();
}

bool TcpServerCore::IsOurUsers(int fd) {
  if (family_ != AF_UNIX) return true;
  const absl::StatusOr<uid_t> user = PeerUser(fd);
  if (user.ok() && *user == options_.user) return true;
  ++statistics_.other_user;
  LOG_EVERY_N_SEC(WARNING, 10) << "the store refused a process of "
                               << (user.ok() ? absl::StrCat("user ", *user) : "an unknown user")
                               << ": it is for those of user " << options_.user;
  return false;
}

bool TcpServerCore::EndAStranger(absl::Duration patience, absl::string_view why) {
  std::shared_ptr<Connection> chosen;
  uint64_t number = 0;
  for (const auto& [arrival, stranger] : strangers_) {
    std::shared_ptr<Connection> connection = stranger.lock();
    if (connection == nullptr) continue;
    const bool silent = !connection->HasSpoken();
    if (silent || (chosen == nullptr && control_->Now() - connection->came_at() >= patience)) {
      chosen = std::move(connection);
      number = arrival;
    }
    if (silent) break;
  }
  if (chosen == nullptr) return false;
  strangers_.erase(number);
  chosen->Close(&StoreServerStatistics::crowded_out, absl::ResourceExhaustedError(why));
  return true;
}

void TcpServerCore::EndAnEndedSession() {
  const size_t limit =
      kConnectionsPerRank * static_cast<size_t>(options_.engine.world_size) + kMoreConnections;
  if (connections_.size() - strangers_.size() <= limit) return;
  std::shared_ptr<Connection> oldest;
  for (const auto& connection : connections_) {
    if (connection->session() == 0 || connection->HasLiveSession()) continue;
    if (oldest == nullptr || connection->session() < oldest->session()) oldest = connection;
  }
  if (oldest == nullptr) return;
  oldest->Close(&StoreServerStatistics::crowded_out,
                absl::ResourceExhaustedError("its session had ended, and others had come"));
}

bool TcpServerCore::HasNewsOf(int rank) const {
  const StoreEngine::SessionId session = engine_.LiveSession(rank);
  for (const auto& connection : connections_) {
    if (session != 0 && connection->session() == session) return connection->HasInput();
  }
  return session == 0;
}

void TcpServerCore::Remove(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  Changed();
  if (connections_.empty() && all_closed_) {
    control_->Post(std::exchange(all_closed_, nullptr));
  }
}

void TcpServerCore::Changed() {
  const absl::Time next = engine_.NextTick();
  if (next < tick_at_ && !closing_) {
    control_->Cancel(tick_timer_);
    tick_at_ = next;
    tick_timer_ = control_->PostAt(next, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      // Through the queue once more: what has arrived meanwhile is read before anybody is judged.
      self->control_->Post([weak] {
        const auto core = weak.lock();
        if (core == nullptr) return;
        core->tick_at_ = absl::InfiniteFuture();
        core->engine_.Tick(core->control_->Now());
        core->Changed();
      });
    });
  }
  if (drained_ && engine_.open_sessions() == 0) {
    control_->Post(std::exchange(drained_, nullptr));
  }
}

void TcpServerCore::Drain(absl::AnyInvocable<void()> drained) {
  CloseListener();
  draining_ = true;
  drained_ = std::move(drained);
  Changed();
}

void TcpServerCore::Close(absl::AnyInvocable<void()> closed) {
  CloseListener();
  closing_ = true;
  drained_ = nullptr;
  control_->Cancel(tick_timer_);
  all_closed_ = std::move(closed);
  // Last answers (to Leave) go out first; a client that does not say goodbye in return is not
  // waited for.
  for (const auto& connection : connections_) connection->Finish();
  if (connections_.empty()) return control_->Post(std::exchange(all_closed_, nullptr));
  control_->PostAt(control_->Now() + absl::Milliseconds(200), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || !self->all_closed_) return;
    // The engine outlives them, as long as the server's object: nothing may be sent there any more.
    for (const auto& connection : self->connections_) connection->Abandon();
    for (const auto& connection : self->connections_) connection->Disconnect("the store ended");
    self->connections_.clear();
    self->control_->Post(std::exchange(self->all_closed_, nullptr));
  });
}

void TcpServerCore::CloseListener() {
  if (!acceptor_.is_open()) return;
  control_->Cancel(accept_timer_);
  listener_guard_.Reset();
  asio::error_code ignored;
  (void)acceptor_.close(ignored);
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace muster::store_internal
