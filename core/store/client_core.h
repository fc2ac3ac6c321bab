// The client's half of every store: what is waited for, until when, and which callback gets it.
//
// It turns the calls of `Store` into Requests for a Channel and Responses into callbacks on the
// executor. What carries the messages (a function call, a socket) is the Channel's business, so all
// stores keep the same promises in the same words.
#ifndef MUSTER_CORE_STORE_CLIENT_CORE_H_
#define MUSTER_CORE_STORE_CLIENT_CORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

// Thread-safe. Always held by shared_ptr: its timers and posted tasks may outlive the store.
class ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  class Channel {
   public:
    virtual ~Channel() = default;
    // Never blocks, never calls back from inside. Thread-safe; requests of one thread stay in
    // order.
    virtual void Send(Request request) = 0;
  };

  explicit ClientCore(Executor* executor) : executor_(executor) {}

  // Before the first call.
  void SetChannel(std::shared_ptr<Channel> channel);

  // The calls of Store.
  void Get(absl::string_view key, absl::Time deadline, Store::Callback<Entry> done);
  void Set(absl::string_view key, absl::string_view value, Lifetime lifetime, absl::Time deadline,
           Store::Callback<Revision> done);
  void CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                     Lifetime lifetime, absl::Time deadline,
                     Store::Callback<CompareAndSetResult> done);
  void Delete(absl::string_view key, absl::Time deadline, Store::DoneCallback done);
  Store::WatchId Watch(absl::string_view prefix, Store::WatchCallback changed);
  void Unwatch(Store::WatchId watch);
  void GatherAmong(absl::string_view key, const Gathering& among, absl::string_view value,
                   absl::Time deadline, Store::Callback<GatherResult> done);
  void Withdraw(absl::string_view key, int rank, absl::string_view reason);
  void Leave(absl::string_view reason, absl::Time deadline, Store::DoneCallback done);

  // From the channel, on the executor, in the order of the server.
  void Deliver(Response response);

  // Everything pending and later answers `status`. The first call (or Leave) decides what later
  // calls answer.
  void Fail(const absl::Status& status);

  // Fail, and no callback of a watch runs any more (from then on when called on the executor).
  void Shutdown(const absl::Status& status);

 private:
  using Answer = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  struct Pending {
    std::string what;  // for messages: set of "a/b"
    Answer done;
    Executor::TimerId timer = 0;
    std::string gather;  // its key; "": none
    int rank = 0;        // in it
  };
  using WatchPointer = std::shared_ptr<Store::WatchCallback>;

  void Start(Request request, absl::string_view what, absl::Time deadline, absl::Duration slack,
             Answer done);
  void OnDeadline(uint64_t id);
  void PostAnswer(Answer done, absl::Status status);
  void DeliverWatch(Response response);

  Executor* const executor_;

  absl::Mutex mutex_;
  std::shared_ptr<Channel> channel_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);  // OK: open
  bool left_ ABSL_GUARDED_BY(mutex_) = false;    // the server has confirmed
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, WatchPointer> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_CLIENT_CORE_H_
