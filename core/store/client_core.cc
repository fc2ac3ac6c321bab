#include "muster/core/store/client_core.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster::store_internal {
namespace {

// A gather's deadline is the server's to judge: it knows who did not come. The client's own timer
// is for a server that does not answer at all, and so comes a little later.
constexpr absl::Duration kGatherSlack = absl::Seconds(1);

std::string Quoted(absl::string_view what, absl::string_view key) {
  return absl::StrCat(what, " \"", key.substr(0, 200), "\"");
}

}  // namespace

void ClientCore::SetChannel(std::shared_ptr<Channel> channel) {
  absl::MutexLock lock(&mutex_);
  channel_ = std::move(channel);
}

void ClientCore::Get(absl::string_view key, absl::Time deadline, Store::Callback<Entry> done) {
  Request request;
  request.type = Request::Type::kGet;
  request.key = std::string(key);
  Start(std::move(request), "get of", deadline, absl::ZeroDuration(),
        [done = std::move(done)](absl::StatusOr<Response> response) mutable {
          if (!response.ok()) return done(response.status());
          done(std::move(response->entry));
        });
}

void ClientCore::Set(absl::string_view key, absl::string_view value, Lifetime lifetime,
                     absl::Time deadline, Store::Callback<Revision> done) {
  if (absl::Status status = CheckValue(value); !status.ok()) {
    return PostAnswer([done = std::move(done)](
                          absl::StatusOr<Response> response) mutable { done(response.status()); },
                      status);
  }
  Request request;
  request.type = Request::Type::kSet;
  request.key = std::string(key);
  request.value = std::string(value);
  request.lifetime = lifetime;
  Start(std::move(request), "set of", deadline, absl::ZeroDuration(),
        [done = std::move(done)](absl::StatusOr<Response> response) mutable {
          if (!response.ok()) return done(response.status());
          done(response->revision);
        });
}

void ClientCore::CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                               Lifetime lifetime, absl::Time deadline,
                               Store::Callback<CompareAndSetResult> done) {
  Answer answer = [done = std::move(done)](absl::StatusOr<Response> response) mutable {
    if (!response.ok()) return done(response.status());
    done(CompareAndSetResult{response->swapped, std::move(response->entry)});
  };
  if (absl::Status status = CheckValue(value); !status.ok()) {
    return PostAnswer(std::move(answer), status);
  }
  Request request;
  request.type = Request::Type::kCompareAndSet;
  request.key = std::string(key);
  request.value = std::string(value);
  request.expected = expected;
  request.lifetime = lifetime;
  Start(std::move(request), "compare-and-set of", deadline, absl::ZeroDuration(),
        std::move(answer));
}

void ClientCore::Delete(absl::string_view key, absl::Time deadline, Store::DoneCallback done) {
  Request request;
  request.type = Request::Type::kDelete;
  request.key = std::string(key);
  Start(std::move(request), "delete of", deadline, absl::ZeroDuration(),
        [done = std::move(done)](absl::StatusOr<Response> response) mutable {
          done(response.status());
        });
}

void ClientCore::GatherAmong(absl::string_view key, const Gathering& among, absl::string_view value,
                             absl::Time deadline, Store::Callback<GatherResult> done) {
  Answer answer = [done = std::move(done)](absl::StatusOr<Response> response) mutable {
    if (!response.ok()) return done(response.status());
    done(GatherResult{response->revision, std::move(response->values)});
  };
  absl::Status sound = CheckValue(value);
  if (sound.ok()) sound = CheckMembers(among.members.size());
  if (!sound.ok()) return PostAnswer(std::move(answer), sound);
  Request request;
  request.type = Request::Type::kGather;
  request.key = std::string(key);
  request.value = std::string(value);
  request.rank = among.rank;
  request.size = among.size;
  request.members.assign(among.members.begin(), among.members.end());
  request.waits_in = among.waits_in.substr(0, Store::kMaxWaitsInBytes);
  request.timeout = deadline - executor_->Now();
  Start(std::move(request), "gather", deadline, kGatherSlack, std::move(answer));
}

void ClientCore::Withdraw(absl::string_view key, int rank, absl::string_view reason) {
  Request request;
  request.type = Request::Type::kWithdraw;
  request.key = std::string(key);
  request.value = std::string(reason.substr(0, Store::kMaxReasonBytes));
  request.rank = rank;
  std::shared_ptr<Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok() || !CheckKey(key).ok()) return;  // then nothing of ours waits
    channel = channel_;
  }
  channel->Send(std::move(request));
}

void ClientCore::Leave(absl::string_view reason, absl::Time deadline, Store::DoneCallback done) {
  Request request;
  request.type = Request::Type::kLeave;
  request.value = std::string(reason.substr(0, Store::kMaxReasonBytes));
  std::shared_ptr<Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    if (left_ || (!closed_.ok() && !leaving_)) {
      const absl::Status status = left_ ? absl::OkStatus() : closed_;
      executor_->Post([done = std::move(done), status]() mutable { done(status); });
      return;
    }
    if (!leaving_) {
      leaving_ = true;
      closed_ = absl::FailedPreconditionError(
          absl::StrCat("this session has left the store", reason.empty() ? "" : ": ", reason));
    }
    request.id = next_id_++;
    Pending& pending = pending_[request.id];
    pending.what = "leave";
    pending.done = [self = weak_from_this(),
                    done = std::move(done)](absl::StatusOr<Response> response) mutable {
      if (auto core = self.lock(); core != nullptr && response.ok()) {
        absl::MutexLock lock(&core->mutex_);
        core->left_ = true;
      }
      done(response.status());
    };
    pending.timer = executor_->PostAt(deadline, [self = weak_from_this(), id = request.id] {
      if (auto core = self.lock()) core->OnDeadline(id);
    });
    channel = channel_;
  }
  channel->Send(std::move(request));
}

Store::WatchId ClientCore::Watch(absl::string_view prefix, Store::WatchCallback changed) {
  Request request;
  request.type = Request::Type::kWatch;
  request.key = std::string(prefix);
  auto watch = std::make_shared<Store::WatchCallback>(std::move(changed));
  std::shared_ptr<Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    request.id = next_id_++;
    watches_.emplace(request.id, watch);
    absl::Status refused = closed_.ok() ? CheckPrefix(prefix) : closed_;
    if (!refused.ok()) {
      Response response;
      response.kind = Response::Kind::kWatchBatch;
      response.id = request.id;
      response.status = std::move(refused);
      executor_->Post([self = shared_from_this(), response = std::move(response)]() mutable {
        self->Deliver(std::move(response));
      });
      return request.id;
    }
    channel = channel_;
  }
  const Store::WatchId id = request.id;
  channel->Send(std::move(request));
  return id;
}

void ClientCore::Unwatch(Store::WatchId watch) {
  WatchPointer ended;  // destroyed outside of the lock
  std::shared_ptr<Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = watches_.find(watch);
    if (found == watches_.end()) return;
    ended = std::move(found->second);
    watches_.erase(found);
    if (!closed_.ok()) return;
    channel = channel_;
  }
  Request request;
  request.type = Request::Type::kUnwatch;
  request.id = watch;
  channel->Send(std::move(request));
}

void ClientCore::Start(Request request, absl::string_view what, absl::Time deadline,
                       absl::Duration slack, Answer done) {
  std::string name = Quoted(what, request.key);
  absl::Status refused = CheckKey(request.key);
  std::shared_ptr<Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    if (refused.ok()) refused = closed_;
    if (refused.ok() && deadline <= executor_->Now()) {
      refused =
          absl::DeadlineExceededError(absl::StrCat(name, ": its deadline had passed already"));
    }
    if (!refused.ok()) return PostAnswer(std::move(done), std::move(refused));
    request.id = next_id_++;
    Pending& pending = pending_[request.id];
    pending.what = std::move(name);
    pending.done = std::move(done);
    if (request.type == Request::Type::kGather) pending.gather = request.key;
    pending.rank = request.rank;
    pending.timer = executor_->PostAt(deadline + slack, [self = weak_from_this(), id = request.id] {
      if (auto core = self.lock()) core->OnDeadline(id);
    });
    channel = channel_;
  }
  channel->Send(std::move(request));
}

void ClientCore::PostAnswer(Answer done, absl::Status status) {
  executor_->Post([done = std::move(done), status = std::move(status)]() mutable { done(status); });
}

void ClientCore::OnDeadline(uint64_t id) {
  Pending late;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;
    late = std::move(found->second);
    pending_.erase(found);
  }
  // The server may not know that it is late: this clock may have leapt. Nobody waits here any more,
  // so nobody shall be let in who meets us there, and the next gather under that key be refused.
  if (!late.gather.empty()) {
    Withdraw(late.gather, late.rank, "the store did not answer before the deadline");
  }
  late.done(absl::DeadlineExceededError(
      absl::StrCat(late.what, ": the store did not answer before the deadline")));
}

void ClientCore::Deliver(Response response) {
  if (response.kind == Response::Kind::kWatchBatch) return DeliverWatch(std::move(response));
  Pending answered;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = pending_.find(response.id);
    if (found == pending_.end()) return;  // its deadline came first
    answered = std::move(found->second);
    pending_.erase(found);
    executor_->Cancel(answered.timer);
  }
  if (response.status.ok()) {
    answered.done(std::move(response));
  } else {
    answered.done(std::move(response.status));
  }
}

void ClientCore::DeliverWatch(Response response) {
  WatchPointer watch;  // keeps the callback while it runs, should it unwatch itself
  {
    absl::MutexLock lock(&mutex_);
    const auto found = watches_.find(response.id);
    if (found == watches_.end()) return;
    watch = found->second;
    if (!response.status.ok()) watches_.erase(found);
  }
  if (response.status.ok()) {
    (*watch)(std::move(response.events));
  } else {
    (*watch)(std::move(response.status));
  }
}

void ClientCore::Fail(const absl::Status& status) {
  std::vector<Answer> answers;
  std::map<uint64_t, WatchPointer> watches;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_.ok()) closed_ = status;
    for (auto& [id, pending] : pending_) {
      executor_->Cancel(pending.timer);
      answers.push_back(std::move(pending.done));
    }
    pending_.clear();
    watches = watches_;
  }
  if (answers.empty() && watches.empty()) return;
  executor_->Post([self = shared_from_this(), answers = std::move(answers),
                   watches = std::move(watches), status]() mutable {
    for (Answer& answer : answers) answer(status);
    for (const auto& [id, ignored] : watches) {
      Response end;
      end.kind = Response::Kind::kWatchBatch;
      end.id = id;
      end.status = status;
      self->DeliverWatch(std::move(end));
    }
  });
}

void ClientCore::Shutdown(const absl::Status& status) {
  std::map<uint64_t, WatchPointer> ended;  // destroyed outside of the lock
  {
    absl::MutexLock lock(&mutex_);
    ended.swap(watches_);
  }
  Fail(status);
}

}  // namespace muster::store_internal
