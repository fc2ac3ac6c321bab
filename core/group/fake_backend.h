// A backend for the tests of this folder: ranks are threads of one process, and each step can be
// told to fail or to block.
#ifndef MUSTER_CORE_GROUP_FAKE_BACKEND_H_
#define MUSTER_CORE_GROUP_FAKE_BACKEND_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/collective/backend.h"

namespace muster {

// What the fake does, shared by all ranks that use it. Set it up before the ranks start.
// Thread-safe where it says so.
class FakeWorld {
 public:
  struct Rules {
    absl::Status connect_error;        // what Connect of `rank` answers
    bool connects_to_nothing = false;  // Connect of `rank` gives a null pointer
    bool connect_throws = false;
    bool connect_blocks = false;    // Connect of `rank` waits for its cancellation or deadline
    absl::Status operation_error;   // what every operation of `rank` answers
    bool operation_blocks = false;  // every operation of `rank` waits for Abort or its deadline
    bool ignores_deadline = false;  // operations of `rank`; Abort and Unblock end them
    absl::Status finalize_error;    // what Finalize of `rank` answers
    bool finalize_blocks = false;   // Finalize of `rank` waits for Abort
    // What does not return, not even when aborted or cancelled, until Unblock:
    bool ignores_abort = false;  // operations of `rank`
    bool connect_hangs = false;
    bool finalize_hangs = false;
    bool abort_hangs = false;  // and wakes nothing before
    bool destructor_hangs = false;
    bool held_hangs = false;
  };
  std::map<int, Rules> rules;  // by rank
  bool check_hangs = false;    // the backends' Check, until Unblock

  // Lets go of what hangs. Thread-safe.
  void Unblock();
  // Waits until something hangs. Thread-safe.
  void WaitForHang();

  // Communicators that exist. Thread-safe.
  int live() const { return live_; }
  // Waits until `count` operations of all ranks are inside a communicator. Thread-safe.
  void WaitForOperations(int count);

 private:
  friend class FakeBackend;
  friend class FakeCommunicator;
  // An all-reduce in which the ranks of one group meet.
  struct Round {
    int arrived = 0;
    int left = 0;
    std::vector<float> sum;
  };
  void AwaitUnblock() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  std::map<std::string, Round> rounds_ ABSL_GUARDED_BY(mutex_);  // by group and number
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool unblocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool hangs_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<int> live_ = 0;
};

// Sums f32, and has a barrier.
class FakeBackend final : public Backend {
 public:
  // `world` outlives it.
  FakeBackend(std::string name, FakeWorld* world) : name_(std::move(name)), world_(world) {}

  absl::string_view name() const override { return name_; }
  Capabilities capabilities() const override {
    return {Capability::kAllReduce, Capability::kBarrier};
  }
  absl::Status Check(Device device,
                     const std::map<std::string, std::string>& options) const override;
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override;

 private:
  const std::string name_;
  FakeWorld* const world_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_FAKE_BACKEND_H_
