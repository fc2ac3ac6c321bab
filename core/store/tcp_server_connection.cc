#include "muster/core/store/tcp_server_connection.h"

#include <sys/socket.h>

#include <algorithm>
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

// How long a rank's new session waits for the end of its old one that is on its way already.
constexpr absl::Duration kSuccession = absl::Seconds(1);

}  // namespace

void TcpServerCore::Connection::Start() {
  EndWithin(core_->options_.handshake_timeout);
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

void TcpServerCore::Connection::Send(const Response& response) {
  if (absl::IsResourceExhausted(response.status)) {
    ++core_->statistics_.over_limit;
    LOG_EVERY_N_SEC(WARNING, 10) << "the store refused a request: " << response.status.message();
  }
  SendFrame(FrameParts{EncodeFrame(response), nullptr, ""});
}

void TcpServerCore::Connection::SendGathered(const Response& answer,
                                             const GatherTable::Result& result) {
  SendFrame(EncodeAnswer(answer, core_->Encoded(result)));
}

void TcpServerCore::Connection::Close(Count as, const absl::Status& why) {
  if (counted_as_ == nullptr) counted_as_ = as;
  stream_->Close(why);
}

void TcpServerCore::Connection::MakeRoom(absl::string_view why) {
  stream_->Send(EncodeFrame(Refused{absl::UnavailableError(why)}));
  Close(&StoreServerStatistics::crowded_out, absl::ResourceExhaustedError(why));
}

void TcpServerCore::Connection::Disconnect(absl::string_view why) {
  core_->control_->Cancel(deadline_);
  if (session_ != 0) core_->engine_.Disconnect(session_, why, core_->control_->Now());
}

void TcpServerCore::Connection::SendFrame(FrameParts frame) {
  ++core_->statistics_.responses;
  core_->statistics_.bytes_sent +=
      static_cast<int64_t>(frame.size() - (frame.head.size() - MessageOf(frame.head).size()));
  stream_->Send(std::move(frame));
  core_->BoundQueues();
}

// The core outlives its connections' callbacks: it lets go of each stream before it ends.
void TcpServerCore::Connection::EndWithin(absl::Duration time) {
  core_->control_->Cancel(deadline_);
  deadline_ = core_->control_->PostAt(core_->control_->Now() + time, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || self->session_ != 0) return;
    self->Close(&StoreServerStatistics::too_slow,
                absl::DeadlineExceededError("it did not introduce itself in time"));
  });
}

absl::Status TcpServerCore::Connection::OnFrame(absl::string_view body) {
  absl::StatusOr<Message> message = DecodeBody(body);
  if (!message.ok()) return message.status();
  if (const Refused* refused = std::get_if<Refused>(&*message)) return OnRefused(*refused);
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

absl::Status TcpServerCore::Connection::OnRefused(const Refused& refused) {
  if (session_ != 0) {
    const std::string what = absl::StrCat("at its end ", refused.status.message());
    return absl::IsDataLoss(refused.status) ? absl::DataLossError(what)
                                            : absl::InvalidArgumentError(what);
  }
  if (!challenged_ || opening_) {
    return absl::InvalidArgumentError("it refused a store that had not said anything");
  }
  LogStranger("it has another token than this job's, as it says");
  Close(&StoreServerStatistics::wrong_token, absl::PermissionDeniedError("its token is another"));
  return absl::OkStatus();
}

absl::Status TcpServerCore::Connection::OnHello(const Hello& hello) {
  if (hello.version != kWireVersion) {
    Refuse(&StoreServerStatistics::no_greeting,
           absl::FailedPreconditionError(absl::StrCat(
               "the store speaks version ", kWireVersion, " of its protocol, this client ",
               hello.version, ": build both from one version of muster")));
    return absl::OkStatus();
  }
  if (hello.nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("its nonce has ", hello.nonce.size(), " bytes, not ", kNonceBytes));
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

absl::Status TcpServerCore::Connection::OnOpen(Open open) {
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
  if (core_->listener_.family != AF_UNIX) {
    absl::StatusOr<FrameSeal> seal = FrameSeal::Create(
        FrameSeal::Side::kServer, core_->options_.token, client_nonce_, server_nonce_);
    if (!seal.ok()) return seal.status();
    stream_->StartSealing(*std::move(seal));
  }
  opening_ = true;
  TryOpen(open, core_->control_->Now() + kSuccession);
  return absl::OkStatus();
}

void TcpServerCore::Connection::TryOpen(const Open& open, absl::Time give_up) {
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

void TcpServerCore::Connection::Refuse(Count as, const absl::Status& status) {
  counted_as_ = as;
  if (as != &StoreServerStatistics::not_let_in) {
    LogStranger(status.message());
  } else if (!absl::IsUnavailable(status)) {
    // Who is told Unavailable tries again, and says so when it gives up.
    LOG(WARNING) << "the store refused a session: " << status.message();
  }
  opening_ = true;
  stream_->Send(EncodeFrame(Refused{status}));
  stream_->Finish();
  // Who has its answer and stays takes a place that others need.
  EndWithin(std::min(kGreeting, core_->options_.handshake_timeout));
}

// A stranger must not be able to fill the log.
void TcpServerCore::Connection::LogStranger(absl::string_view why) {
  LOG_EVERY_N_SEC(WARNING, 10) << "the store refused a stranger: " << why;
}

TcpServerCore::Connection::Count TcpServerCore::Connection::CountOf(const absl::Status& why) const {
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

void TcpServerCore::Connection::OnClosed(const absl::Status& why) {
  const auto self = shared_from_this();
  if (const Count as = CountOf(why); as != nullptr) ++(core_->statistics_.*as);
  if (session_ != 0 && HasLiveSession() && !absl::IsUnavailable(why)) {
    LOG(WARNING) << "the store ended the session of rank " << rank_ << ": " << why.message();
  }
  core_->strangers_.erase(number_);
  // "its connection closed" when it went; when we ended it, why.
  const absl::string_view how = absl::IsUnavailable(why) ? "its " : "its connection was ended: ";
  Disconnect(absl::StrCat(how, why.message()));
  core_->Remove(self);
}

}  // namespace muster::store_internal
