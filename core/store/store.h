// The control plane's memory: a small linearizable key-value store that all ranks of a job share.
//
// It carries membership, spec agreement, generations, close agreement and the news of failures;
// never tensors. Two implementations pass one conformance test: `MemoryStore` (threads of one
// process, tests) and `TcpStore` (a client of the server that the launcher or rank 0 runs).
//
// A client is a *session*. The server publishes every session under "session/<world rank>" (see
// session_record.h), so whoever watches that prefix learns of a lost peer. Session keys and pending
// gathers vanish with their session.
#ifndef MUSTER_CORE_STORE_STORE_H_
#define MUSTER_CORE_STORE_STORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Grows by one with each change of the store, whatever the key. 0: "no such key".
using Revision = int64_t;

// How long a key lives when nobody deletes it.
enum class Lifetime {
  kPersistent,  // as long as the store
  kSession,     // until the session that set it last ends, for whatever reason
};

struct Entry {
  std::string key;
  std::string value;
  Revision revision = 0;  // of the key's last change
};

struct CompareAndSetResult {
  bool swapped = false;
  Entry current;  // the entry after the call: ours when swapped, else what stood in the way
                  // (revision 0: the key is absent)
};

struct WatchEvent {
  enum class Kind { kPut, kDelete };
  Kind kind = Kind::kPut;
  Entry entry;  // kDelete: key and the revision of the deletion, no value
};

struct GatherResult {
  Revision revision = 0;  // the same on every rank, and different for every completed gather
  std::vector<std::string> values;  // values[r] is what rank r gave
};

// Who is to come to a gather.
struct Gathering {
  int rank = 0;  // whose value this is
  int size = 1;  // values of 0..size-1 are waited for
  // Which rank of the job each of these is, all different; empty: the one of its own number. What a
  // gather says of ranks, it says of those of the job.
  std::vector<int> members;
  // Not empty: this rank comes to no other gather before this one has ended, and what it waits in,
  // as messages name it ("'train'"). Ranks that wait for each other are found by it.
  std::string waits_in;
};

// Answers and watch batches of one session arrive in the order in which the server produced them,
// whatever the request: who sees rank 1's session end has seen everything that rank 1 caused
// before.
//
// Asynchronous and thread-safe. Every callback runs exactly once (a watch's: any number of times),
// on the store's executor, never inside the call. No request is silently lost: it ends with a
// result, with DeadlineExceeded at `deadline`, or with Unavailable
// ("the store (rank 0, host a, pid 7) was lost: ..."). Keys are 1 to kMaxKeyBytes bytes, values at
// most kMaxValueBytes: else InvalidArgument. A session that the server declared dead gets
// FailedPrecondition with the reason (it is fenced).
class Store {
 public:
  static constexpr size_t kMaxKeyBytes = 1024;
  static constexpr size_t kMaxValueBytes = 1 << 20;
  // What the others get to read of the reason that Withdraw or Leave gives; the rest is cut off.
  static constexpr size_t kMaxReasonBytes = 4096;
  // Of a gather, and of what one says that it waits in.
  static constexpr size_t kMaxMembers = 1 << 16;
  static constexpr size_t kMaxWaitsInBytes = 1024;
  // How long ranks must have waited for each other before they are told: a program of several
  // threads may be about to come from another one.
  static constexpr absl::Duration kCycleGrace = absl::Milliseconds(500);

  template <class T>
  using Callback = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  using DoneCallback = absl::AnyInvocable<void(absl::Status)>;
  // A batch of changes in the order of their revisions, or the error that ended the watch (then
  // nothing more comes).
  using WatchCallback = absl::AnyInvocable<void(absl::StatusOr<std::vector<WatchEvent>>)>;
  using WatchId = uint64_t;

  virtual ~Store() = default;

  // NotFound when there is no such key.
  virtual void Get(absl::string_view key, absl::Time deadline, Callback<Entry> done) = 0;

  virtual void Set(absl::string_view key, absl::string_view value, Lifetime lifetime,
                   absl::Time deadline, Callback<Revision> done) = 0;

  // Sets the key only while its revision is `expected` (0: only while it is absent). A mismatch is
  // a result, not an error.
  virtual void CompareAndSet(absl::string_view key, Revision expected, absl::string_view value,
                             Lifetime lifetime, absl::Time deadline,
                             Callback<CompareAndSetResult> done) = 0;

  // Deleting what is not there is fine.
  virtual void Delete(absl::string_view key, absl::Time deadline, DoneCallback done) = 0;

  // First a snapshot of all keys that start with `prefix` (kPut each, possibly none: the first
  // batch always comes), then every later change, each once and in order: there is no gap between
  // the snapshot and the first change, so no wake-up is lost.
  virtual WatchId Watch(absl::string_view prefix, WatchCallback changed) = 0;

  // After it, called on the executor, `changed` does not run any more. Unknown ids are ignored.
  virtual void Unwatch(WatchId watch) = 0;

  // Waits until every rank 0..size-1 has called Gather on `key` and gives all their values to each:
  // one request a rank, one answer. It is one event: when a contributor's session ends, its
  // deadline passes or a rank contributes with another size or other members, the whole round
  // fails, on every waiting rank with the same error, which names the rank ("ranks 2, 3 did not
  // come"; "rank 1 was lost"). The key is free for the next round at once, after success and after
  // failure. A second contribution of one rank while its first waits: AlreadyExists for the second
  // ("duplicate rank 1: host a pid 7 and host a pid 9"), the first goes on.
  //
  // Ranks that wait for each other in gathers with `waits_in` (rank 0 in "a" for rank 1, which is
  // in "b" and waits for rank 0) are told so kCycleGrace later: these rounds fail with
  // FailedPrecondition, which says who waits for whom in what.
  virtual void GatherAmong(absl::string_view key, const Gathering& among, absl::string_view value,
                           absl::Time deadline, Callback<GatherResult> done) = 0;
  void Gather(absl::string_view key, int rank, int size, absl::string_view value,
              absl::Time deadline, Callback<GatherResult> done) {
    GatherAmong(key, Gathering{rank, size, {}, ""}, value, deadline, std::move(done));
  }

  // Takes back this session's contribution to `key`, when it still waits: the round fails on every
  // waiting rank, this one included, with Aborted "rank 1 withdrew: <reason>". Nothing happens when
  // no contribution waits. Answers come through the Gather's own callbacks.
  virtual void Withdraw(absl::string_view key, int rank, absl::string_view reason) = 0;

  // Ends the session in good order ("left", not "lost"): session keys vanish, later requests answer
  // FailedPrecondition. `done` runs when the server has confirmed, or at the deadline. Idempotent.
  // The destructor leaves too, and waits for nobody.
  virtual void Leave(absl::string_view reason, absl::Time deadline, DoneCallback done) = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_STORE_H_
