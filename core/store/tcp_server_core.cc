#include "muster/core/store/tcp_server_core.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/tcp_server_connection.h"

namespace muster::store_internal {
namespace {

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

// Without a descriptor accept fails before it looks.
bool SomebodyWaits(int listener) {
  pollfd poller = {listener, POLLIN, 0};
  return poll(&poller, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TcpServerCore>> TcpServerCore::Create(
    ControlThread* control, const TcpServerOptions& options, const Listener& listener) {
  asio::posix::stream_descriptor acceptor(control->context());
  asio::error_code error;
  // What it returns stands in `error`, too.
  (void)acceptor.assign(listener.fd, error);
  if (error) {
    close(listener.fd);
    RemoveSocket(listener);
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
      listener_(listener) {}

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
      const int fd = accept4(self->listener_.fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        self->Admit(fd);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        const int error_number = errno;
        if (!SomebodyWaits(self->listener_.fd)) return self->Accept();
        // One whose greeting may be under way is not broken off: the next would be, too.
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
  if (listener_.family != AF_UNIX) DisableDelay(fd);
  const uint64_t number = arrivals_++;
  auto connection = std::make_shared<Connection>(
      this,
      FrameStream::Create(control_->context(), fd, listener_.family, kMaxHandshakeBytes,
                          options_.max_queued, queued_),
      number);
  connections_.insert(connection);
  strangers_[number] = connection;
  connection->Start();
}

bool TcpServerCore::IsOurUsers(int fd) {
  if (listener_.family != AF_UNIX) return true;
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
    const absl::Duration age = control_->Now() - connection->came_at();
    // A rank's first word may still be on its way, and strangers can have said theirs.
    const bool silent = age >= options_.first_word && !connection->HasSpoken();
    if (silent || (chosen == nullptr && age >= patience)) {
      chosen = std::move(connection);
      number = arrival;
    }
    if (silent || age < options_.first_word) break;
  }
  if (chosen == nullptr) return false;
  strangers_.erase(number);
  chosen->MakeRoom(why);
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
  oldest->Close(&StoreServerStatistics::outlived,
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

std::shared_ptr<const std::string> TcpServerCore::Encoded(const GatherTable::Result& result) {
  if (result_ != result) {
    result_ = result;
    encoded_ = QueueAccount::Share(queued_, EncodeValues(result->values));
  }
  return encoded_;
}

void TcpServerCore::BoundQueues() {
  while (queued_->bytes() > options_.max_queued_for_all) {
    std::shared_ptr<Connection> most;
    for (const auto& connection : connections_) {
      if (most == nullptr || connection->queued() > most->queued()) most = connection;
    }
    if (most == nullptr || most->queued() == 0) return;
    most->Close(
        &StoreServerStatistics::not_reading,
        absl::ResourceExhaustedError(absl::StrCat(
            "the other side does not read: ", most->queued(), " bytes wait for it, of ",
            queued_->bytes(), " for all ranks, whose limit is ", options_.max_queued_for_all)));
  }
}

void TcpServerCore::Changed() {
  result_.reset();
  encoded_.reset();
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
  RemoveSocket(listener_);
}

}  // namespace muster::store_internal
