// The suite must find what is broken: each test plants one bug in a backend that is right, and
// expects the check that is there for it to say so.
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/debugging/leak_check.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/backends/reference/reference_backend.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/collective/reduction.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/backend_conformance.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing {
namespace {

enum class Bug {
  kNone,
  kLeaksADescriptor,
  kLeaksAThread,
  kDescriptorSurvivesExec,
  kHeldForgetsDescriptors,
  kIgnoresAbort,
  kGivesAnotherCause,
  kLastCauseWins,
  kIgnoresTheDeadline,
  kIgnoresCancellation,
  kSucceedsWithoutItsPeers,
  kFinalizeKeepsEverything,
  kFinalizeNeedsItsPeers,
  kWorksAfterFinalize,
  kRaisesSigpipe,
  kIgnoresSigpipeForTheProcess,
  kAcceptsAnyOption,
  kDoesWhatItDoesNotList,
  kSumsWrongly,
  kRoundsDifferentlyOnOneRank,
  kRoundsHalvesAtEachStep,
  kWritesBesideTheBuffer,
  kWritesToItsInput,
  kReducesEverywhere,
  kBroadcastForgetsTheEnd,
  kGathersInTheWrongOrder,
  kBarrierDoesNotWait,
  kWritesAfterItReturned,
  kTransfersOneAfterTheOther,
  kSplitIgnoresTheKey,
  kMissesRanksWithoutAName,
  kMultipliesWithSaturation,
  kHeldWaitsForTheOperation,
  kReducesWhateverIsThere,
  kCutsOffWhatIsTooLong,
};

// What the communicators of one broken backend share.
struct Shared {
  explicit Shared(Bug b) : bug(b) {}
  const Bug bug;
  absl::Notification end;  // of leaked threads
  absl::Mutex mutex;
  std::vector<std::thread> leaked_threads;
  std::vector<int> leaked_descriptors;
  std::vector<std::weak_ptr<Communicator>> alive;
  int users = 0;              // communicators, and calls of Connect that have not returned
  float* returned = nullptr;  // a buffer whose operation is over
};

class BrokenCommunicator : public Communicator {
 public:
  BrokenCommunicator(int rank, int size, std::unique_ptr<Communicator> right, Shared* shared)
      : rank_(rank), size_(size), right_(std::move(right)), shared_(shared) {
    absl::MutexLock lock(&shared_->mutex);
    shared_->alive.push_back(right_);
    ++shared_->users;
    if (Is(Bug::kDescriptorSurvivesExec)) fd_ = eventfd(0, 0);
  }
  ~BrokenCommunicator() override {
    if (fd_ >= 0) close(fd_);
    absl::MutexLock lock(&shared_->mutex);
    --shared_->users;
  }

  absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                         const OperationOptions& options) override {
    absl::MutexLockMaybe lock(Is(Bug::kHeldWaitsForTheOperation) ? &operation_mutex_ : nullptr);
    if (Is(Bug::kWorksAfterFinalize) && finalized_) return absl::OkStatus();
    if (Is(Bug::kSucceedsWithoutItsPeers)) return absl::OkStatus();
    if (Is(Bug::kReducesWhateverIsThere)) return right_->Barrier(options);
    if (Is(Bug::kRoundsHalvesAtEachStep) && out.dtype == DataType::kBF16 && out.count == 1) {
      std::vector<BFloat16> all(static_cast<size_t>(size_));
      absl::Status status = right_->AllGather(in, Buffer::Of(absl::MakeSpan(all)), options);
      for (int r = 1; r < size_; ++r) ReduceInto(&all[0], &all[r], 1, DataType::kBF16, op);
      *static_cast<BFloat16*>(out.data) = all[0];
      return status;
    }
    OperationOptions own = options;
    if (Is(Bug::kIgnoresTheDeadline)) own.deadline = absl::InfiniteFuture();
    absl::Status status = right_->AllReduce(in, out, op, own);
    if (Is(Bug::kWritesAfterItReturned)) {
      absl::MutexLock lock(&shared_->mutex);
      if (rank_ == size_ - 1) shared_->returned = static_cast<float*>(out.data);
      if (rank_ == 0 && shared_->returned != nullptr) *shared_->returned = 1.0f;
    }
    if (!status.ok() && Is(Bug::kRaisesSigpipe)) raise(SIGPIPE);
    if (!status.ok() && Is(Bug::kGivesAnotherCause)) return absl::UnavailableError("poll failed");
    if (!status.ok() && Is(Bug::kLastCauseWins)) {
      absl::MutexLock lock(&shared_->mutex);
      return last_cause_;
    }
    if (out.count == 0) return status;
    if (Is(Bug::kMultipliesWithSaturation) && op == ReduceOp::kProduct && out.count == 1 &&
        out.dtype == DataType::kI8) {
      *static_cast<int8_t*>(out.data) = 127;
    }
    if (Is(Bug::kSumsWrongly) && out.dtype == DataType::kF32) *static_cast<float*>(out.data) += 1;
    if (Is(Bug::kRoundsDifferentlyOnOneRank) && rank_ == size_ - 1 && op == ReduceOp::kAverage &&
        out.dtype == DataType::kF64 && out.count > 1) {
      static_cast<double*>(out.data)[1] *= 1 + 1e-15;
    }
    if (Is(Bug::kWritesBesideTheBuffer)) static_cast<char*>(out.data)[out.bytes()] = 0;
    if (Is(Bug::kWritesToItsInput)) std::fill_n(Writable(in), in.bytes(), 0);
    return status;
  }
  absl::Status Broadcast(Buffer buffer, int root, const OperationOptions& options) override {
    if (!Is(Bug::kBroadcastForgetsTheEnd) || buffer.count == 0) {
      return right_->Broadcast(buffer, root, options);
    }
    return right_->Broadcast(buffer.Slice(0, buffer.count - 1), root, options);
  }
  absl::Status Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root,
                      const OperationOptions& options) override {
    if (Is(Bug::kReducesEverywhere)) return right_->AllReduce(in, out, op, options);
    return right_->Reduce(in, out, op, root, options);
  }
  absl::Status AllGather(ConstBuffer in, Buffer out, const OperationOptions& options) override {
    absl::Status status = right_->AllGather(in, out, options);
    if (Is(Bug::kGathersInTheWrongOrder) && size_ > 1) {
      std::swap_ranges(Writable(out), Writable(out) + in.bytes(), Writable(out) + in.bytes());
    }
    return status;
  }
  absl::Status Gather(ConstBuffer in, Buffer out, int root,
                      const OperationOptions& options) override {
    return right_->Gather(in, out, root, options);
  }
  absl::Status Scatter(ConstBuffer in, Buffer out, int root,
                       const OperationOptions& options) override {
    return right_->Scatter(in, out, root, options);
  }
  absl::Status ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op,
                             const OperationOptions& options) override {
    return right_->ReduceScatter(in, out, op, options);
  }
  absl::Status AllToAll(ConstBuffer in, Buffer out, const OperationOptions& options) override {
    return right_->AllToAll(in, out, options);
  }
  absl::Status AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts, Buffer out,
                         absl::Span<const int64_t> out_counts,
                         const OperationOptions& options) override {
    return right_->AllToAllV(in, in_counts, out, out_counts, options);
  }
  absl::Status Barrier(const OperationOptions& options) override {
    return Is(Bug::kBarrierDoesNotWait) ? absl::OkStatus() : right_->Barrier(options);
  }
  absl::Status Send(ConstBuffer buffer, int peer, const OperationOptions& options) override {
    return right_->Send(buffer, peer, options);
  }
  absl::Status Receive(Buffer buffer, int peer, const OperationOptions& options) override {
    if (!Is(Bug::kCutsOffWhatIsTooLong)) return right_->Receive(buffer, peer, options);
    return right_->Receive(buffer.Slice(0, std::min<int64_t>(buffer.count, 100)), peer, options);
  }
  absl::Status Transfer(absl::Span<const PeerTransfer> transfers,
                        const OperationOptions& options) override {
    if (!Is(Bug::kTransfersOneAfterTheOther)) return right_->Transfer(transfers, options);
    for (size_t i = 0; i < transfers.size(); ++i) {
      absl::Status status = right_->Transfer(transfers.subspan(i, 1), options);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key,
                                                      const ConnectContext& context) override {
    return right_->Split(color, Is(Bug::kSplitIgnoresTheKey) ? 0 : key, context);
  }
  absl::Status Finalize(absl::Time deadline) override {
    if (Is(Bug::kFinalizeKeepsEverything)) return absl::OkStatus();
    if (Is(Bug::kFinalizeNeedsItsPeers)) {
      OperationOptions options;
      options.deadline = deadline;
      if (absl::Status met = right_->Barrier(options); !met.ok()) return met;
    }
    finalized_ = true;
    return right_->Finalize(deadline);
  }
  void Abort(const absl::Status& cause) noexcept override {
    {
      absl::MutexLock lock(&shared_->mutex);
      last_cause_ = cause;
    }
    if (!Is(Bug::kIgnoresAbort)) right_->Abort(cause);
  }
  Holdings Held() const override {
    absl::MutexLockMaybe lock(Is(Bug::kHeldWaitsForTheOperation) ? &operation_mutex_ : nullptr);
    Holdings held = right_->Held();
    if (Is(Bug::kIgnoresAbort)) return Holdings();
    if (Is(Bug::kHeldForgetsDescriptors)) held.file_descriptors = 0;
    if (fd_ >= 0) ++held.file_descriptors;
    return held;
  }

 private:
  bool Is(Bug bug) const { return shared_->bug == bug; }
  static char* Writable(const ConstBuffer& buffer) {
    return static_cast<char*>(const_cast<void*>(buffer.data));
  }

  const int rank_;
  const int size_;
  const std::shared_ptr<Communicator> right_;
  Shared* const shared_;
  absl::Status last_cause_;
  bool finalized_ = false;
  int fd_ = -1;
  mutable absl::Mutex operation_mutex_;
};

class BrokenBackend : public Backend {
 public:
  explicit BrokenBackend(Shared* shared) : shared_(shared) {}
  absl::string_view name() const override { return "broken"; }
  Capabilities capabilities() const override {
    if (shared_->bug != Bug::kDoesWhatItDoesNotList) return right_.capabilities();
    return {Capability::kAllReduce};
  }
  absl::Status Check(Device device,
                     const std::map<std::string, std::string>& options) const override {
    return shared_->bug == Bug::kAcceptsAnyOption ? absl::OkStatus()
                                                  : right_.Check(device, options);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override {
    Count(1);
    const absl::Cleanup done = [this] { Count(-1); };
    ConnectContext own = context;
    if (shared_->bug == Bug::kIgnoresCancellation) own.cancellation = nullptr;
    absl::StatusOr<std::unique_ptr<Communicator>> made = right_.Connect(own);
    if (!made.ok() && shared_->bug == Bug::kMissesRanksWithoutAName) {
      // Full of numbers, and none of them tells who.
      return absl::DeadlineExceededError("gave up after 2 of 2 tries, 2000 ms, rank 23 of 0..22");
    }
    if (!made.ok()) return made;
    if (shared_->bug == Bug::kIgnoresSigpipeForTheProcess) signal(SIGPIPE, SIG_IGN);
    {
      absl::MutexLock lock(&shared_->mutex);
      if (shared_->bug == Bug::kLeaksADescriptor) {
        shared_->leaked_descriptors.push_back(eventfd(0, EFD_CLOEXEC));
      }
      if (shared_->bug == Bug::kLeaksAThread) {
        shared_->leaked_threads.emplace_back([this] { shared_->end.WaitForNotification(); });
      }
    }
    return std::make_unique<BrokenCommunicator>(context.rank, context.size, *std::move(made),
                                                shared_);
  }

 private:
  void Count(int change) {
    absl::MutexLock lock(&shared_->mutex);
    shared_->users += change;
  }

  ReferenceBackend right_;
  Shared* const shared_;
};

struct Planted {
  Bug bug;
  const char* check;  // that must find it
  const char* says;   // part of what it must say
};

constexpr Planted kPlanted[] = {
    {Bug::kLeaksADescriptor, "CreateAndFinalizeWithNothingBetween", " fds"},
    {Bug::kLeaksAThread, "CreateAndDestroyWithNothingBetween", " threads"},
    {Bug::kDescriptorSurvivesExec, "HeldCountsEverythingAndNothingSurvivesExec",
     "not close-on-exec"},
    {Bug::kHeldForgetsDescriptors, "HeldCountsEverythingAndNothingSurvivesExec",
     "Held() of all ranks adds up to nothing"},
    {Bug::kIgnoresAbort, "AbortWakesEachBlockedOperation", "did not wake a blocked all_reduce"},
    {Bug::kIgnoresAbort, "AnAbortReachesThePeers", "did not notice that a peer aborted"},
    {Bug::kGivesAnotherCause, "AbortWakesEachBlockedOperation", "not the cause"},
    {Bug::kLastCauseWins, "AbortOfAnIdleOneLeavesNothing", "not the first cause"},
    {Bug::kIgnoresTheDeadline, "ADeadlineEndsAnOperation", "did not return after its deadline"},
    {Bug::kIgnoresCancellation, "CancellationEndsTheWaitForAPeer", "did not return"},
    {Bug::kSucceedsWithoutItsPeers, "ADestructorReachesThePeers", "succeeded"},
    {Bug::kFinalizeKeepsEverything, "CreateAndFinalizeWithNothingBetween", "Held() says"},
    {Bug::kFinalizeNeedsItsPeers, "FinalizeEndsWithoutAPeerThatIsGone", "had gone, gave "},
    {Bug::kWorksAfterFinalize, "NothingWorksAfterFinalize", "after Finalize succeeded"},
    {Bug::kRaisesSigpipe, "AnAbortReachesThePeers", "raised SIGPIPE"},
    {Bug::kIgnoresSigpipeForTheProcess, "CreateAndFinalizeWithNothingBetween",
     "changed the process's disposition"},
    {Bug::kAcceptsAnyOption, "KnowsItsOptions", "no_such_option"},
    {Bug::kDoesWhatItDoesNotList, "WhatIsNotListedIsUnimplemented", "not among the capabilities"},
    {Bug::kSumsWrongly, "AllReduceIsRightAndBitEqualOnAllRanks", "element 0 is 1, not 0"},
    {Bug::kRoundsDifferentlyOnOneRank, "AllReduceIsRightAndBitEqualOnAllRanks", "different bits"},
    {Bug::kRoundsHalvesAtEachStep, "HalvesAccumulateInF32", "accumulated in f32"},
    {Bug::kWritesBesideTheBuffer, "AllReduceIsRightAndBitEqualOnAllRanks", "memory beside"},
    {Bug::kWritesToItsInput, "AllReduceIsRightAndBitEqualOnAllRanks", "`in` was written to"},
    {Bug::kReducesEverywhere, "ReduceIsRightOnItsRootAlone", "another rank than root"},
    {Bug::kBroadcastForgetsTheEnd, "BroadcastIsRightFromEveryRoot", "element 0 is "},
    {Bug::kGathersInTheWrongOrder, "AllGatherIsRight", "element 0 is 31, not 0"},
    {Bug::kBarrierDoesNotWait, "BarrierWaitsForEveryRank", "left barrier"},
    {Bug::kWritesAfterItReturned, "BuffersAreTheCallersAfterwards", "was written to after"},
    {Bug::kTransfersOneAfterTheOther, "TransfersProgressTogether", "transfer"},
    {Bug::kReducesWhateverIsThere, "MismatchedCallsAreAnErrorOnEveryRank",
     "all_reduce of f32 and of i32 by different ranks succeeded"},
    {Bug::kCutsOffWhatIsTooLong, "MismatchedCallsAreAnErrorOnEveryRank",
     "a send of 100 and a receive of 200 by different ranks succeeded"},
    {Bug::kSplitIgnoresTheKey, "SplitMakesCommunicators", "after split the ranks were"},
    {Bug::kMissesRanksWithoutAName, "AMissingRankIsNamedAtTheDeadline", "names rank 2"},
    {Bug::kHeldWaitsForTheOperation, "HeldWaitsForNobody", "Held() waits for an operation"},
    {Bug::kMultipliesWithSaturation, "IntegersWrapAround", "a product of i8 that overflows"},
};

absl::Status RunCheckNamed(absl::string_view name, Bug bug) {
  auto shared = std::make_unique<Shared>(bug);
  auto backend = std::make_unique<BrokenBackend>(shared.get());
  ConformanceTarget target;
  target.backend = backend.get();
  target.ranks = 3;
  target.bound = absl::Seconds(bug == Bug::kNone ? 10 : 1);
  absl::Status result = absl::NotFoundError(absl::StrCat("no check is called ", name));
  for (const ConformanceCheck& check : ConformanceChecks()) {
    if (name == check.name) result = check.run(target);
  }
  // What the bug left behind: calls that block, threads, descriptors.
  std::vector<std::weak_ptr<Communicator>> alive;
  {
    absl::MutexLock lock(&shared->mutex);
    alive = shared->alive;
  }
  for (const std::weak_ptr<Communicator>& weak : alive) {
    if (std::shared_ptr<Communicator> comm = weak.lock()) comm->Abort(absl::AbortedError("end"));
  }
  shared->end.Notify();
  for (std::thread& thread : shared->leaked_threads) thread.join();
  for (int fd : shared->leaked_descriptors) close(fd);
  // They use the backend: it stays until they have let go.
  bool unused = false;
  {
    absl::MutexLock lock(&shared->mutex);
    unused =
        shared->mutex.AwaitWithTimeout(absl::Condition(
                                           +[](int* users) { return *users == 0; }, &shared->users),
                                       absl::Seconds(30) * TimeoutScale());
  }
  if (!unused) {
    ADD_FAILURE() << "bug " << static_cast<int>(bug) << ", found by " << name
                  << ": calls did not return after Abort and their deadline";
    // Left to those that still use them.
    absl::IgnoreLeak(shared.release());
    absl::IgnoreLeak(backend.release());
  }
  return result;
}

class PlantedBugTest : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedBugTest, IsFound) {
  const absl::Status found = RunCheckNamed(GetParam().check, GetParam().bug);
  EXPECT_TRUE(absl::IsFailedPrecondition(found)) << found;
  EXPECT_TRUE(absl::StrContains(found.message(), GetParam().says)) << found;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugTest, ::testing::ValuesIn(kPlanted),
                         [](const ::testing::TestParamInfo<Planted>& test) {
                           return absl::StrCat(test.param.check, "_",
                                               static_cast<int>(test.param.bug));
                         });

class NoBugTest : public ::testing::TestWithParam<ConformanceCheck> {};

TEST_P(NoBugTest, IsFine) {
  const absl::Status kept = RunCheckNamed(GetParam().name, Bug::kNone);
  EXPECT_TRUE(kept.ok()) << kept;
}

INSTANTIATE_TEST_SUITE_P(All, NoBugTest,
                         ::testing::ValuesIn(ConformanceChecks().begin(),
                                             ConformanceChecks().end()),
                         [](const ::testing::TestParamInfo<ConformanceCheck>& test) {
                           return std::string(test.param.name);
                         });

}  // namespace
}  // namespace muster::testing
