#include "muster/core/store/blocking_store.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace muster {
namespace {

// A store answers at the deadline; a gather's client a second later when the server is silent. What
// comes later than this does not come.
constexpr absl::Duration kMoment = absl::Seconds(3);

// Where an answer is left for a waiting thread. R is absl::Status or an absl::StatusOr.
template <class R>
class Mailbox {
 public:
  // Whoever holds it has promised an answer. When the last holder goes without one, none will come.
  class Key {
   public:
    explicit Key(std::shared_ptr<Mailbox> box) : box_(std::move(box)) {}
    Key(Key&&) = default;
    Key& operator=(Key&&) = delete;
    ~Key() {
      if (box_ != nullptr) {
        box_->Put(
            absl::CancelledError("the store's executor ended before the store could answer: its "
                                 "control thread was stopped"));
      }
    }
    void Put(R result) const { box_->Put(std::move(result)); }

   private:
    std::shared_ptr<Mailbox> box_;
  };

  void Put(R result) {
    absl::MutexLock lock(&mutex_);
    if (!result_.has_value()) result_.emplace(std::move(result));
  }

  std::optional<R> Take(absl::Duration wait) {
    absl::MutexLock lock(&mutex_);
    const auto ready = [this] { return result_.has_value(); };
    mutex_.AwaitWithTimeout(absl::Condition(&ready), wait);
    return std::move(result_);
  }

 private:
  absl::Mutex mutex_;
  std::optional<R> result_;
};

absl::Status CheckCaller(const Executor& executor, absl::string_view what) {
  if (!executor.RunsHere()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what,
                   ": a blocking call on the store's own executor would wait for itself: use "
                   "the asynchronous Store there"));
}

// Runs `start` with a callback and waits for what that is given.
template <class R, class Start>
R Await(const Executor& executor, absl::string_view what, absl::Time deadline, Start start) {
  if (absl::Status status = CheckCaller(executor, what); !status.ok()) return status;
  auto box = std::make_shared<Mailbox<R>>();
  start([key = typename Mailbox<R>::Key(box)](R result) { key.Put(std::move(result)); });
  std::optional<R> result = box->Take(deadline - executor.Now() + kMoment);
  if (result.has_value()) return *std::move(result);
  return absl::DeadlineExceededError(
      absl::StrCat(what, ": no answer: the store's executor is blocked"));
}

}  // namespace

absl::StatusOr<Entry> BlockingStore::Get(absl::string_view key, absl::Time deadline) {
  return Await<absl::StatusOr<Entry>>(
      *executor_, "get", deadline, [&](auto done) { store_->Get(key, deadline, std::move(done)); });
}

absl::StatusOr<Revision> BlockingStore::Set(absl::string_view key, absl::string_view value,
                                            Lifetime lifetime, absl::Time deadline) {
  return Await<absl::StatusOr<Revision>>(*executor_, "set", deadline, [&](auto done) {
    store_->Set(key, value, lifetime, deadline, std::move(done));
  });
}

absl::StatusOr<CompareAndSetResult> BlockingStore::CompareAndSet(absl::string_view key,
                                                                 Revision expected,
                                                                 absl::string_view value,
                                                                 Lifetime lifetime,
                                                                 absl::Time deadline) {
  return Await<absl::StatusOr<CompareAndSetResult>>(
      *executor_, "compare-and-set", deadline, [&](auto done) {
        store_->CompareAndSet(key, expected, value, lifetime, deadline, std::move(done));
      });
}

absl::Status BlockingStore::Delete(absl::string_view key, absl::Time deadline) {
  return Await<absl::Status>(*executor_, "delete", deadline,
                             [&](auto done) { store_->Delete(key, deadline, std::move(done)); });
}

absl::StatusOr<GatherResult> BlockingStore::Gather(absl::string_view key, int rank, int size,
                                                   absl::string_view value, absl::Time deadline) {
  return Await<absl::StatusOr<GatherResult>>(*executor_, "gather", deadline, [&](auto done) {
    store_->Gather(key, rank, size, value, deadline, std::move(done));
  });
}

absl::Status BlockingStore::Leave(absl::string_view reason, absl::Time deadline) {
  return Await<absl::Status>(*executor_, "leave", deadline,
                             [&](auto done) { store_->Leave(reason, deadline, std::move(done)); });
}

absl::StatusOr<Entry> BlockingStore::WaitForKey(absl::string_view key, absl::Time deadline) {
  if (absl::Status status = CheckCaller(*executor_, "wait for key"); !status.ok()) return status;
  if (key.empty()) return absl::InvalidArgumentError("wait for key: the key is empty");
  using Box = Mailbox<absl::StatusOr<Entry>>;
  auto box = std::make_shared<Box>();
  const Store::WatchId watch =
      store_->Watch(key, [done = Box::Key(box), wanted = std::string(key)](
                             absl::StatusOr<std::vector<WatchEvent>> batch) {
        if (!batch.ok()) return done.Put(batch.status());
        for (WatchEvent& event : *batch) {
          if (event.kind != WatchEvent::Kind::kPut || event.entry.key != wanted) continue;
          done.Put(std::move(event.entry));
        }
      });
  // Nothing but a put or the watch's end answers, so here the deadline is judged by the wait
  // itself.
  std::optional<absl::StatusOr<Entry>> found = box->Take(deadline - executor_->Now());
  store_->Unwatch(watch);
  if (found.has_value()) return *std::move(found);
  return absl::DeadlineExceededError(
      absl::StrCat("nobody set key \"", key, "\" before the deadline"));
}

}  // namespace muster
