#include "muster/core/store/store_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "muster/core/store/heartbeat.h"

namespace muster::store_internal {
namespace {

constexpr size_t kFencedIncarnations = 64;

std::string Who(const SessionRecord& record) {
  return absl::StrCat("host ", record.host, ", pid ", record.pid);
}

absl::Status CheckWrite(const Request& request) {
  if (absl::Status status = CheckKey(request.key); !status.ok()) return status;
  if (absl::StartsWith(request.key, kSessionKeyPrefix)) {
    return absl::PermissionDeniedError(absl::StrCat("key \"", request.key,
                                                    "\": only the store's server writes under \"",
                                                    kSessionKeyPrefix, "\""));
  }
  return CheckValue(request.value);
}

}  // namespace

StoreEngine::StoreEngine(const Options& options)
    : options_(options), keys_(options.keys), gathers_(options.gathers) {}

void StoreEngine::Sink::SendGathered(const Response& answer, const GatherTable::Result& result) {
  Response whole = answer;
  whole.values = result->values;
  Send(whole);
}

// --- Sessions

absl::StatusOr<StoreEngine::SessionId> StoreEngine::Open(const SessionInfo& info,
                                                         absl::Duration heartbeat_timeout,
                                                         Sink* sink, absl::Time now) {
  SessionRecord record;
  record.rank = info.rank;
  record.incarnation = info.incarnation;
  record.host = info.host.substr(0, Store::kMaxReasonBytes);
  record.pid = info.pid;
  if (absl::Status status = CheckOpen(info); !status.ok()) return status;

  // Silence is counted between ticks; the first session with a heartbeat starts the count.
  if (beat_ == absl::InfiniteDuration()) last_tick_ = std::max(last_tick_, now);
  const SessionId id = ++last_session_;
  Session& session = sessions_[id];
  session.record = record;
  session.sink = sink;
  session.heartbeat_timeout =
      heartbeat_timeout > absl::ZeroDuration() ? heartbeat_timeout : absl::InfiniteDuration();
  of_rank_[info.rank] = id;
  UpdateBeat();
  if (options_.on_session) options_.on_session(record);
  Publish(record);
  SendNews();
  return id;
}

absl::Status StoreEngine::CheckOpen(const SessionInfo& info) {
  const std::string me = absl::StrCat("host ", info.host, ", pid ", info.pid);
  if (info.world_size != options_.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", info.rank, " (", me, ") was started for a world of ", info.world_size,
                     " ranks, the store serves one of ", options_.world_size,
                     ": start every rank with the same world size"));
  }
  if (info.rank < 0 || info.rank >= options_.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", info.rank, " (", me, ") is outside of a world of ",
                     options_.world_size, " ranks: ranks are 0 to ", options_.world_size - 1));
  }
  for (const SessionRecord& fenced : fenced_[info.rank]) {
    if (fenced.incarnation != info.incarnation) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        fenced.WhatHappened(), ", and is fenced: only a new process may take its place"));
  }
  const auto open = of_rank_.find(info.rank);
  if (open == of_rank_.end()) {
    const auto record = records_.find(info.rank);
    if (options_.ends_with_its_host && record != records_.end() &&
        record->second.liveness == Liveness::kLeft) {
      return absl::UnavailableError(
          absl::StrCat("rank ", info.rank,
                       " has left this store, which ends with the pool of the rank that "
                       "serves it and has not ended yet: close that pool, too"));
    }
    return absl::OkStatus();
  }
  const Session& other = sessions_.at(open->second);
  if (other.sink != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("rank ", info.rank,
                                                 " is already here: ", Who(other.record),
                                                 "; this is ", me, ": start each rank once"));
  }
  // In its grace: its successor is here, so nobody needs to wait for a better reason.
  const std::string reason = other.loss_reason;
  End(open->second, Liveness::kLost, reason);
  return CheckOpen(info);
}

void StoreEngine::Disconnect(SessionId id, absl::string_view reason, absl::Time now) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  session.sink = nullptr;
  session.watches.clear();
  if (session.record.liveness != Liveness::kLive) {
    sessions_.erase(found);
    return;
  }
  if (options_.loss_grace <= absl::ZeroDuration()) {
    End(id, Liveness::kLost, reason);
    return;
  }
  session.grace_end = now + options_.loss_grace;
  session.loss_reason = std::string(reason);
  UpdateBeat();
}

void StoreEngine::DeclareLost(int rank, absl::string_view reason) {
  if (rank < 0 || rank >= options_.world_size) return;
  const auto open = of_rank_.find(rank);
  if (open != of_rank_.end()) {
    End(open->second, Liveness::kLost, reason);
    return;
  }
  if (records_.count(rank) != 0) return;
  SessionRecord record;
  record.rank = rank;
  record.liveness = Liveness::kLost;
  record.reason = std::string(reason.substr(0, Store::kMaxReasonBytes));
  Publish(record);
  SendNews();
}

void StoreEngine::NoteRefusal(const SessionInfo& info, const absl::Status& why) {
  SessionRecord record;
  record.liveness = Liveness::kLost;
  if (absl::IsInvalidArgument(why)) {
    record.rank = info.rank;
    record.incarnation = info.incarnation;
    record.host = info.host.substr(0, Store::kMaxReasonBytes);
    record.pid = info.pid;
    record.reason = absl::StrCat("it was started for a world of ", info.world_size,
                                 " ranks, the store serves one of ", options_.world_size,
                                 ": start every rank with the same world size");
    PublishUnlessKnown(record);
  } else if (absl::IsAlreadyExists(why)) {
    record.reason = absl::StrCat("it never came, and rank ", info.rank,
                                 " came twice: ", Who(records_.at(info.rank)), ", and host ",
                                 info.host.substr(0, Store::kMaxReasonBytes), ", pid ", info.pid,
                                 ": start each rank once");
    // Which of those that are not here yet will never be is not known: perhaps the others just come
    // later, and then they are told of the one that does not.
    for (int rank = 0; rank < options_.world_size; ++rank) {
      record.rank = rank;
      PublishUnlessKnown(record);
    }
  }
  SendNews();
}

// Whoever has come speaks for itself, whatever a stranger with its number says.
void StoreEngine::PublishUnlessKnown(const SessionRecord& record) {
  const bool is_rank = record.rank >= 0 && record.rank < options_.world_size;
  if (is_rank && records_.count(record.rank) == 0) Publish(record);
}

void StoreEngine::End(SessionId id, Liveness liveness, absl::string_view reason) {
  Session& session = sessions_.at(id);
  session.record.liveness = liveness;
  session.record.reason = std::string(reason.substr(0, Store::kMaxReasonBytes));
  const SessionRecord record = session.record;
  of_rank_.erase(record.rank);
  if (liveness == Liveness::kLost) {
    Remember(record);
    if (options_.on_session) options_.on_session(record);
  }
  UpdateBeat();

  // The cause first, then what follows from it.
  Publish(record);
  keys_.EraseAllOf(id);
  SendNews();
  gathers_.FailRoundsOf(
      id,
      [&record](int rank) {
        const std::string what = record.WhatHappened();
        if (rank == record.rank) return absl::AbortedError(what);
        return absl::AbortedError(absl::StrCat("rank ", rank, " of the group: ", what));
      },
      [this](const GatherTable::Waiter& waiter, const absl::Status& status,
             const GatherTable::Result& result) { AnswerWaiter(waiter, status, result); });

  const std::map<uint64_t, std::string> watches = std::exchange(session.watches, {});
  for (const auto& [watch, prefix] : watches) {
    Request request;
    request.type = Request::Type::kWatch;
    request.id = watch;
    Refuse(session, request);
  }
  if (session.sink == nullptr) sessions_.erase(id);
}

void StoreEngine::Remember(const SessionRecord& record) {
  std::deque<SessionRecord>& fenced = fenced_[record.rank];
  fenced.push_back(record);
  if (fenced.size() > kFencedIncarnations) fenced.pop_front();
}

void StoreEngine::Publish(const SessionRecord& record) {
  records_[record.rank] = record;
  // Beyond the limits: in a full store, too, the others must learn of a loss.
  keys_.PutBeyondLimits(SessionKey(record.rank), record.Encode());
}

// --- Time

void StoreEngine::Tick(absl::Time now) {
  gathers_.Expire(
      now, [this](const GatherTable::Waiter& waiter, const absl::Status& status,
                  const GatherTable::Result& result) { AnswerWaiter(waiter, status, result); });
  const absl::Duration passed =
      last_tick_ == absl::InfinitePast() ? absl::ZeroDuration() : now - last_tick_;
  last_tick_ = std::max(last_tick_, now);

  std::vector<std::pair<SessionId, std::string>> ended;
  for (auto& [id, session] : sessions_) {
    if (session.record.liveness != Liveness::kLive) continue;
    if (session.sink == nullptr) {
      if (session.grace_end <= now) ended.emplace_back(id, session.loss_reason);
      continue;
    }
    if (session.heartbeat_timeout == absl::InfiniteDuration()) continue;
    const absl::Duration beat = session.heartbeat_timeout / kBeatsPerTimeout;
    if (passed > absl::ZeroDuration()) session.silence += std::min(passed, 2 * beat);
    if (session.silence > session.heartbeat_timeout) {
      ended.emplace_back(
          id, absl::StrCat("no heartbeat for ", absl::FormatDuration(session.heartbeat_timeout)));
    }
  }
  for (const auto& [id, reason] : ended) End(id, Liveness::kLost, reason);
}

absl::Time StoreEngine::NextTick() const {
  absl::Time next = gathers_.NextDeadline();
  if (beat_ != absl::InfiniteDuration()) next = std::min(next, last_tick_ + beat_);
  for (const auto& [rank, id] : of_rank_) next = std::min(next, sessions_.at(id).grace_end);
  return next;
}

void StoreEngine::UpdateBeat() {
  beat_ = absl::InfiniteDuration();
  for (const auto& [rank, id] : of_rank_) {
    const Session& session = sessions_.at(id);
    if (session.sink == nullptr || session.heartbeat_timeout == absl::InfiniteDuration()) continue;
    beat_ = std::min(beat_, BeatOf(session.heartbeat_timeout));
  }
}

// --- Requests

void StoreEngine::Handle(SessionId id, const Request& request, absl::Time now) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  session.silence = absl::ZeroDuration();
  if (session.record.liveness == Liveness::kLive) {
    HandleLive(id, session, request, now);
    SendNews();
  } else {
    Refuse(session, request);
  }
}

void StoreEngine::HandleLive(SessionId id, Session& session, const Request& request,
                             absl::Time now) {
  Response answer;
  answer.id = request.id;
  switch (request.type) {
    case Request::Type::kGet:
      Get(request, answer);
      break;
    case Request::Type::kSet:
      Set(id, request, answer);
      break;
    case Request::Type::kCompareAndSet:
      CompareAndSet(id, request, answer);
      break;
    case Request::Type::kDelete:
      answer.status = CheckWrite(request);
      if (answer.status.ok()) keys_.Erase(request.key);
      break;
    case Request::Type::kWatch:
      return Watch(session, request);
    case Request::Type::kUnwatch:
      session.watches.erase(request.id);
      return;
    case Request::Type::kGather:
      return Gather(id, session, request, now);
    case Request::Type::kWithdraw: {
      const auto answer = [this](const GatherTable::Waiter& waiter, const absl::Status& status,
                                 const GatherTable::Result& result) {
        AnswerWaiter(waiter, status, result);
      };
      // Who gives up since the deadline has passed, and this server is late, is not why the others
      // have waited in vain: they are told who did not come.
      gathers_.Expire(now, answer);
      gathers_.Withdraw(id, request.key, request.rank,
                        request.value.substr(0, Store::kMaxReasonBytes), answer);
      return;
    }
    case Request::Type::kLeave:
      End(id, Liveness::kLeft, request.value);
      break;
    case Request::Type::kHeartbeat:
      break;
  }
  if (session.sink != nullptr) session.sink->Send(answer);
}

void StoreEngine::Refuse(const Session& session, const Request& request) {
  if (session.sink == nullptr) return;
  Response answer;
  answer.id = request.id;
  switch (request.type) {
    case Request::Type::kUnwatch:
    case Request::Type::kWithdraw:
      return;
    case Request::Type::kWatch:
      answer.kind = Response::Kind::kWatchBatch;
      break;
    default:
      break;
  }
  const SessionRecord& record = session.record;
  if (record.liveness == Liveness::kLost) {
    answer.status = absl::FailedPreconditionError(
        absl::StrCat("this session is fenced: ", record.WhatHappened()));
  } else if (request.type != Request::Type::kLeave) {
    answer.status = absl::FailedPreconditionError(
        absl::StrCat("this session has ended: ", record.WhatHappened()));
  }
  session.sink->Send(answer);
}

void StoreEngine::Get(const Request& request, Response& answer) {
  answer.status = CheckKey(request.key);
  if (!answer.status.ok()) return;
  const Entry* entry = keys_.Find(request.key);
  if (entry == nullptr) {
    answer.status = absl::NotFoundError(absl::StrCat("no key \"", request.key, "\" in the store"));
  } else {
    answer.entry = *entry;
  }
}

void StoreEngine::Set(SessionId id, const Request& request, Response& answer) {
  answer.status = CheckWrite(request);
  if (!answer.status.ok()) return;
  answer.status = keys_.Put(request.key, request.value,
                            request.lifetime == Lifetime::kSession ? id : KeySpace::kNobody,
                            sessions_.at(id).record.rank);
  answer.revision = keys_.revision();
}

void StoreEngine::CompareAndSet(SessionId id, const Request& request, Response& answer) {
  const Entry* entry = keys_.Find(request.key);
  if ((entry == nullptr ? 0 : entry->revision) == request.expected) {
    Set(id, request, answer);
    answer.swapped = answer.status.ok();
    entry = keys_.Find(request.key);
  } else {
    answer.status = CheckWrite(request);
  }
  if (entry != nullptr) {
    answer.entry = *entry;
  } else {
    answer.entry.key = request.key;
  }
}

void StoreEngine::Watch(Session& session, const Request& request) {
  Response batch;
  batch.kind = Response::Kind::kWatchBatch;
  batch.id = request.id;
  if (absl::Status status = CheckPrefix(request.key); !status.ok()) {
    batch.status = status;
  } else if (session.watches.size() >= options_.watches_per_session) {
    batch.status = absl::ResourceExhaustedError(
        absl::StrCat("watch of \"", request.key, "\": this session has ", session.watches.size(),
                     " watches, which is its limit: end those that nobody needs any more"));
  } else if (!session.watches.emplace(request.id, request.key).second) {
    batch.status = absl::InvalidArgumentError(absl::StrCat("watch ", request.id, " is taken"));
  } else {
    batch.events = keys_.Snapshot(request.key);
  }
  session.sink->Send(batch);
}

void StoreEngine::Gather(SessionId id, Session& session, const Request& request, absl::Time now) {
  absl::Status status = CheckGather(request, session.record.rank, options_.world_size);
  if (status.ok()) {
    GatherTable::Contribution contribution;
    contribution.waiter = {id, request.id};
    contribution.who = Who(session.record);
    contribution.rank = request.rank;
    contribution.size = request.size;
    contribution.value = request.value;
    contribution.deadline = now + request.timeout;
    contribution.members.assign(request.members.begin(), request.members.end());
    contribution.waits_in = request.waits_in.substr(0, Store::kMaxWaitsInBytes);
    contribution.came = now;
    status = gathers_.Join(
        request.key, std::move(contribution), [this] { return keys_.Advance(); },
        [this](const GatherTable::Waiter& waiter, const absl::Status& result_status,
               const GatherTable::Result& result) { AnswerWaiter(waiter, result_status, result); });
  }
  if (!status.ok()) AnswerWaiter({id, request.id}, status, nullptr);
}

void StoreEngine::AnswerWaiter(const GatherTable::Waiter& waiter, const absl::Status& status,
                               const GatherTable::Result& result) {
  const auto found = sessions_.find(waiter.session);
  if (found == sessions_.end() || found->second.sink == nullptr) return;
  Response answer;
  answer.id = waiter.request;
  answer.status = status;
  if (!status.ok()) return found->second.sink->Send(answer);
  answer.revision = result->revision;
  found->second.sink->SendGathered(answer, result);
}

void StoreEngine::SendNews() {
  const std::vector<WatchEvent> changes = keys_.TakeChanges();
  if (changes.empty()) return;
  for (auto& [id, session] : sessions_) {
    if (session.sink == nullptr) continue;
    for (const auto& [watch, prefix] : session.watches) {
      Response batch;
      batch.kind = Response::Kind::kWatchBatch;
      batch.id = watch;
      for (const WatchEvent& change : changes) {
        if (absl::StartsWith(change.entry.key, prefix)) batch.events.push_back(change);
      }
      if (!batch.events.empty()) session.sink->Send(batch);
    }
  }
}

// --- What is there

StoreEngine::SessionId StoreEngine::LiveSession(int rank) const {
  const auto open = of_rank_.find(rank);
  return open == of_rank_.end() ? 0 : open->second;
}

std::vector<SessionRecord> StoreEngine::Records() const {
  std::vector<SessionRecord> records;
  for (const auto& [rank, record] : records_) records.push_back(record);
  return records;
}

std::vector<Entry> StoreEngine::Entries(absl::string_view prefix) const {
  std::vector<Entry> entries;
  for (WatchEvent& event : keys_.Snapshot(prefix)) entries.push_back(std::move(event.entry));
  return entries;
}

size_t StoreEngine::open_sessions() const { return of_rank_.size(); }

}  // namespace muster::store_internal
