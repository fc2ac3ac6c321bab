#include "muster/core/store/tcp_handshake.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/tcp_address.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestPause = absl::Milliseconds(200);
// An attempt at one address of several ends after its share of the time that is left; a healthy
// server may need this much.
constexpr absl::Duration kLeastShare = absl::Seconds(1);

// Of what who has proved nothing says, in a message.
constexpr size_t kMaxHintBytes = 300;

// A failed attempt: whether another one may succeed, and what was seen.
struct Attempt {
  enum class Retry {
    kNever,
    kForAWhile,  // HandshakeOptions::unproven_patience
    kToTheEnd,   // the deadline
  };
  Retry retry = Retry::kNever;
  absl::Status status;
};

Attempt Again(absl::string_view seen) {
  return {Attempt::Retry::kToTheEnd, absl::UnavailableError(seen)};
}
Attempt Unproven(absl::Status status) { return {Attempt::Retry::kForAWhile, std::move(status)}; }
Attempt Never(absl::Status status) { return {Attempt::Retry::kNever, std::move(status)}; }

// Refused by who has not shown that it knows the token: anybody may have said it.
Attempt Hint(const HandshakeOptions& options, const absl::Status& status) {
  const std::string said = absl::Utf8SafeCHexEscape(status.message().substr(0, kMaxHintBytes));
  if (absl::IsUnavailable(status)) return Again(absl::StrCat("who listens there says: ", said));
  return Unproven(absl::FailedPreconditionError(absl::StrCat(
      "who listens at ", options.address,
      " takes no session, and has not shown that it knows this job's token; it says: \"", said,
      "\": is the address right, and that of this job's store?")));
}

// One connection while it is a stranger's. Closes unless released.
class Line {
 public:
  Line(int fd, absl::Time deadline)
      : fd_(fd), guard_(fd), deadline_(deadline), reader_(kMaxHandshakeBytes) {}
  ~Line() {
    if (fd_ < 0) return;
    shutdown(fd_, SHUT_RDWR);
    guard_.Reset();
    close(fd_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  ForkGuardedFd ReleaseGuard() { return std::move(guard_); }
  int Release() { return std::exchange(fd_, -1); }

  // OK when `events` (or an error, which the next call will tell) are there; DeadlineExceeded.
  absl::Status Wait(int16_t events) {
    for (;;) {
      const absl::Duration left = deadline_ - MonotonicNow();
      if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("");
      const int64_t milliseconds = std::min<int64_t>(
          absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), int64_t{3600} * 1000);
      pollfd poller = {fd_, events, 0};
      if (poll(&poller, 1, static_cast<int>(milliseconds)) > 0) return absl::OkStatus();
    }
  }

  // The error of the connect that was begun; 0 when it is through.
  int ConnectError() {
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    return error;
  }

  absl::Status Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t count = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count >= 0) {
        sent += static_cast<size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (absl::Status status = Wait(POLLOUT); !status.ok()) return status;
      } else if (errno != EINTR) {
        return absl::UnavailableError("connection closed");
      }
    }
    return absl::OkStatus();
  }

  // From the next frame on.
  void StartSealing(FrameSeal seal) { seal_ = std::move(seal); }
  std::optional<FrameSeal> ReleaseSeal() { return std::move(seal_); }

  // Unavailable when the connection ended; InvalidArgument when what came is no message of ours,
  // DataLoss when it is not what the server sent.
  absl::StatusOr<Message> Receive() {
    for (;;) {
      const absl::StatusOr<std::optional<absl::string_view>> body = reader_.Next();
      if (!body.ok()) return body.status();
      if (body->has_value() && !seal_.has_value()) return DecodeBody(**body);
      if (body->has_value()) {
        const absl::StatusOr<absl::string_view> message = seal_->Open(**body);
        if (!message.ok()) return message.status();
        return DecodeBody(*message);
      }
      if (absl::Status status = Wait(POLLIN); !status.ok()) return status;
      char bytes[4096];
      const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
      if (count > 0) {
        reader_.Append(absl::string_view(bytes, static_cast<size_t>(count)));
      } else if (count == 0) {
        return absl::UnavailableError("connection closed");
      } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        return absl::UnavailableError("connection reset");
      }
    }
  }

 private:
  int fd_;
  ForkGuardedFd guard_;
  const absl::Time deadline_;
  FrameReader reader_;
  std::optional<FrameSeal> seal_;
};

// What is to be done about an error of Send or Receive before the session is open.
Attempt Judge(const HandshakeOptions& options, const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    return Unproven(absl::FailedPreconditionError(
        absl::StrCat("what listens at ", options.address, " is not a muster store (",
                     status.message(), "): is the address right?")));
  }
  if (absl::IsDataLoss(status)) {
    return Unproven(absl::DataLossError(
        absl::StrCat("the greeting of the store at ", options.address, ": ", status.message())));
  }
  if (absl::IsDeadlineExceeded(status)) {
    return {Attempt::Retry::kToTheEnd,
            absl::DeadlineExceededError("something accepted the connection there and said "
                                        "nothing")};
  }
  return Again(status.message());
}

// Who serves on a unix socket is this user: a path that was left to others leads to nobody else.
absl::Status CheckServersUser(const HandshakeOptions& options, const ResolvedAddress& address,
                              int fd) {
  if (address.family() != AF_UNIX) return absl::OkStatus();
  const absl::StatusOr<uid_t> user = PeerUser(fd);
  if (!user.ok()) return user.status();
  if (*user == options.user) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "the store at ", options.address, " is served by user ", *user,
      ", and this process is of user ", options.user, ": start launcher and ranks as one user"));
}

// One attempt at one address. Fills `result` when the status is OK.
Attempt TryOnce(const HandshakeOptions& options, const ResolvedAddress& address,
                absl::Time deadline, HandshakeResult* result) {
  const absl::StatusOr<int> fd = StartConnect(address);
  if (!fd.ok()) {
    return Again(fd.status().message());
  }
  Line line(*fd, deadline);
  if (!line.Wait(POLLOUT).ok()) return Again("no answer to the connection");
  if (const int error = line.ConnectError(); error != 0) {
    if (error == ECONNREFUSED) return Again("connection refused");
    return Again(absl::ErrnoToStatus(error, "connection failed").message());
  }

  if (absl::Status trusted = CheckServersUser(options, address, *fd); !trusted.ok()) {
    return Never(trusted);
  }

  const absl::StatusOr<std::string> nonce = RandomBytes(kNonceBytes);
  if (!nonce.ok()) return Never(nonce.status());
  absl::Status status = line.Send(EncodeFrame(Hello{kWireVersion, *nonce}));
  if (!status.ok()) return Judge(options, status);
  absl::StatusOr<Message> message = line.Receive();
  if (!message.ok()) return Judge(options, message.status());
  if (const Refused* refused = std::get_if<Refused>(&*message)) {
    return Hint(options, refused->status);
  }
  const Challenge* challenge = std::get_if<Challenge>(&*message);
  if (challenge == nullptr) return Judge(options, absl::InvalidArgumentError("no challenge came"));
  if (challenge->nonce.size() != kNonceBytes) {
    return Judge(options, absl::InvalidArgumentError(
                              absl::StrCat("its nonce has ", challenge->nonce.size(), " bytes")));
  }
  const absl::StatusOr<std::string> server_proof =
      ServerProof(options.token, *nonce, challenge->nonce);
  if (!server_proof.ok()) return Never(server_proof.status());
  if (!SameProof(*server_proof, challenge->proof)) {
    // So that the store can count it; a proof of ours would be something to try words on.
    line.Send(EncodeFrame(Refused{absl::PermissionDeniedError("another token")})).IgnoreError();
    return Unproven(absl::PermissionDeniedError(
        absl::StrCat("the store at ", options.address,
                     " does not know this job's token: it is another job's; give every rank the "
                     "address and the token of one launcher")));
  }

  Open open;
  open.session = options.session;
  open.heartbeat_timeout = options.heartbeat_timeout;
  absl::StatusOr<std::string> proof =
      ClientProof(options.token, *nonce, challenge->nonce, EncodeFrame(open));
  if (!proof.ok()) return Never(proof.status());
  open.proof = *std::move(proof);
  status = line.Send(EncodeFrame(open));
  if (!status.ok()) return Judge(options, status);
  // Nobody is between the two ends of a unix socket.
  if (address.family() != AF_UNIX) {
    absl::StatusOr<FrameSeal> seal =
        FrameSeal::Create(FrameSeal::Side::kClient, options.token, *nonce, challenge->nonce);
    if (!seal.ok()) return Never(seal.status());
    line.StartSealing(*std::move(seal));
  }
  message = line.Receive();
  if (!message.ok()) return Judge(options, message.status());
  if (const Refused* refused = std::get_if<Refused>(&*message)) {
    if (absl::IsUnavailable(refused->status)) return Again(refused->status.message());
    return Never(refused->status);
  }
  const Welcome* welcome = std::get_if<Welcome>(&*message);
  if (welcome == nullptr) return Judge(options, absl::InvalidArgumentError("no welcome came"));
  result->served_by = welcome->who;
  result->family = address.family();
  result->local_host = address.family() == AF_UNIX ? "127.0.0.1" : LocalAddress(*fd).host;
  result->seal = line.ReleaseSeal();
  result->guard = line.ReleaseGuard();
  result->fd = line.Release();
  return {};
}

}  // namespace

absl::StatusOr<HandshakeResult> OpenSession(const HandshakeOptions& options) {
  const absl::Time start = MonotonicNow();
  const absl::StatusOr<std::vector<ResolvedAddress>> resolved =
      ResolveStore(options.address, options.deadline, options.lookup);
  if (!resolved.ok()) return resolved.status();

  int attempts = 0;
  std::string seen = "the deadline had passed already";
  absl::Time unproven_end = absl::InfiniteFuture();
  for (absl::Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    for (size_t i = 0; i < resolved->size(); ++i) {
      const absl::Time now = MonotonicNow();
      if (now >= options.deadline || attempts >= options.max_attempts) break;
      ++attempts;
      // One that does not answer must leave time for those behind it.
      const absl::Duration share = std::max(
          kLeastShare, (options.deadline - now) / static_cast<int64_t>(resolved->size() - i));
      HandshakeResult result;
      const Attempt attempt =
          TryOnce(options, (*resolved)[i], std::min(options.deadline, now + share), &result);
      if (attempt.status.ok()) return result;
      if (attempt.retry == Attempt::Retry::kNever) return attempt.status;
      if (attempt.retry == Attempt::Retry::kForAWhile) {
        unproven_end = std::min(unproven_end, now + options.unproven_patience);
        if (MonotonicNow() >= unproven_end) return attempt.status;
      }
      // The deadline cut it off: what was said to the one before it tells more.
      const bool cut_off = absl::IsDeadlineExceeded(attempt.status) &&
                           options.deadline - now < kLeastShare && attempts > 1;
      if (!cut_off) seen = std::string(attempt.status.message());
    }
    const absl::Duration left = options.deadline - MonotonicNow();
    if (left <= absl::ZeroDuration() || attempts >= options.max_attempts) break;
    absl::SleepFor(std::min(pause, left));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "rank ", options.session.rank, " cannot reach the store at ", options.address, " (", attempts,
      attempts == 1 ? " attempt" : " attempts", " in ",
      absl::FormatDuration(absl::Trunc(MonotonicNow() - start, absl::Milliseconds(1))), "): ", seen,
      ": is its process (the launcher, or rank 0) running, and is this its address?"));
}

}  // namespace muster::store_internal
