// What a backend does not give back: it is named, it stands in nobody's way, and when it comes back
// late it finds nothing that is gone.
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group.h"
#include "muster/core/group/test_job.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class GroupResidueTest : public ::testing::Test {
 protected:
  // One rank whose backend hangs as `rules` says.
  void Start(const FakeWorld::Rules& rules) {
    job_ = std::make_unique<TestJob>(1);
    job_->world().rules[0] = rules;
  }
  static GroupSpec Spec() {
    GroupSpec spec = TestJob::Spec();
    spec.close_timeout = absl::Milliseconds(500);  // for threads that come back to have done so
    return spec;
  }
  void Acquire() {
    absl::StatusOr<GroupLease> lease = job_->pool(0).Acquire(Spec());
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
  }
  void EndPool() {
    lease_ = GroupLease();
    job_->DestroyPool(0);
  }
  // A close of a group whose backend hangs, with the time to get that far. (The spec's
  // close_timeout is how long the backend has to give everything back after an abort.)
  absl::Status Close() { return lease_.Close(Patience()); }
  static absl::Duration Patience() { return absl::Seconds(1) * TimeoutScale(); }
  // What hangs comes back, and gives back what it holds.
  void ComeBack() {
    job_->world().Unblock();
    ExpectAllGivenBack();
  }
  void ExpectAllGivenBack() {
    job_->AwaitGivenBack();
    std::string left;
    for (const LiveGroup& group : AllLiveGroups()) absl::StrAppend(&left, "\n", group.ToString());
    if (!left.empty()) FAIL() << "these were not given back:" << left;
    EXPECT_EQ(job_->world().live(), 0);
  }
  void TearDown() override {
    job_->world().Unblock();
    EndPool();
    ExpectAllGivenBack();
    job_.reset();
  }

  std::unique_ptr<TestJob> job_;
  GroupLease lease_;
};

TEST_F(GroupResidueTest, AConnectThatReturnsAfterThePoolIsGoneTouchesNothingOfIt) {
  FakeWorld::Rules rules;
  rules.connect_hangs = true;
  Start(rules);
  GroupSpec spec = Spec();
  spec.setup_timeout = Patience();  // to get as far as Connect
  const absl::Status failed = job_->pool(0).Acquire(spec).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kDeadlineExceeded) << failed;
  ASSERT_EQ(job_->pool(0).LiveGroups().size(), 1u);
  EXPECT_EQ(job_->pool(0).LiveGroups()[0].residue,
            "fake did not give back what it holds (Connect never returned) within 500ms");
  EndPool();
  ASSERT_EQ(AllLiveGroups().size(), 1u) << "it is listed when its pool is gone, too";
  ComeBack();
}

TEST_F(GroupResidueTest, AFinalizeThatReturnsAfterThePoolIsGoneTouchesNothingOfIt) {
  FakeWorld::Rules rules;
  rules.finalize_hangs = true;
  Start(rules);
  Acquire();
  EXPECT_EQ(Close().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(job_->pool(0).LiveGroups().size(), 1u);
  EXPECT_EQ(job_->pool(0).LiveGroups()[0].residue,
            "fake did not give back 1 file descriptor (Finalize never returned) within 500ms");
  EndPool();
  ComeBack();
}

TEST_F(GroupResidueTest, AnEndOfACommunicatorThatReturnsAfterThePoolIsGoneTouchesNothingOfIt) {
  FakeWorld::Rules rules;
  rules.destructor_hangs = true;
  Start(rules);
  Acquire();
  lease_->BarrierAsync().Wait().IgnoreError();  // so that there is a queue to end, too
  EXPECT_EQ(Close().code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(job_->pool(0).LiveGroups().size(), 1u);
  EXPECT_THAT(job_->pool(0).LiveGroups()[0].residue,
              HasSubstr("(the end of its communicator never returned)"));
  EndPool();
  ComeBack();
}

TEST_F(GroupResidueTest, AnOperationOnACallersThreadThatReturnsAfterThePoolIsGoneHasTheCause) {
  FakeWorld::Rules rules;
  rules.operation_blocks = rules.ignores_abort = true;
  Start(rules);
  Acquire();
  float value = 1;
  absl::Status status;
  std::thread stuck(
      [&, group = &*lease_] { status = group->AllReduce(Buffer::Of(value), ReduceOp::kSum); });
  job_->world().WaitForOperations(1);
  lease_.Abort(absl::CancelledError("stop"));
  EXPECT_THAT(Message(lease_->status()), HasSubstr("(all_reduce #1 never returned)"));
  EndPool();
  job_->world().Unblock();
  stuck.join();
  EXPECT_EQ(Message(status), "all_reduce #1 of train/1: rank 0 left: \"stop\"");
  ExpectAllGivenBack();  // after whoever came back last
}

TEST_F(GroupResidueTest, AnAbortThatReturnsAfterThePoolIsGoneHasHeldUpNoOtherGroup) {
  FakeWorld::Rules rules;
  rules.operation_blocks = rules.abort_hangs = true;
  Start(rules);
  Acquire();
  job_->world().rules.clear();
  GroupSpec spec = Spec();
  spec.name = "other";
  spec.close_timeout = TestJob::Spec().close_timeout;
  absl::StatusOr<GroupLease> other = job_->pool(0).Acquire(spec);
  ASSERT_TRUE(other.ok()) << other.status();
  float value = 1;
  absl::Status stuck;
  std::thread caller(
      [&, group = &*lease_] { stuck = group->AllReduce(Buffer::Of(value), ReduceOp::kSum); });
  job_->world().WaitForOperations(1);
  std::thread aborter([&] { lease_.Abort(absl::CancelledError("stop")); });
  job_->world().WaitForHang();
  EXPECT_TRUE((*other)->Barrier().ok());
  EXPECT_TRUE(other->Close().ok());
  aborter.join();
  EXPECT_EQ(lease_->state(), GroupState::kAborted);
  ASSERT_EQ(job_->pool(0).LiveGroups().size(), 1u);
  EXPECT_EQ(job_->pool(0).LiveGroups()[0].residue,
            "fake did not give back 1 file descriptor (Abort, all_reduce #1 never returned) within "
            "500ms");
  EndPool();
  job_->world().Unblock();
  caller.join();
  EXPECT_EQ(Message(stuck), "all_reduce #1 of train/1: rank 0 left: \"stop\"");
  ExpectAllGivenBack();
}

TEST_F(GroupResidueTest, WorksQueuedBehindAStuckOperationEndWithTheCauseOfTheAbort) {
  FakeWorld::Rules rules;
  rules.operation_blocks = rules.ignores_abort = true;
  Start(rules);
  Acquire();
  float values[3] = {};
  std::vector<Work> works;
  for (float& value : values) {
    works.push_back(lease_->AllReduceAsync(Buffer::Of(value), ReduceOp::kSum));
  }
  absl::Status blocking;
  std::thread joined([&] { blocking = lease_->Barrier(); });
  job_->world().WaitForOperations(1);
  lease_.Abort(absl::CancelledError("stop"));
  EXPECT_EQ(Message(works[1].Wait()), "all_reduce #2 of train/1: rank 0 left: \"stop\"");
  EXPECT_EQ(Message(works[2].Wait()), "all_reduce #3 of train/1: rank 0 left: \"stop\"");
  joined.join();
  EXPECT_THAT(Message(blocking), HasSubstr("rank 0 left: \"stop\""));
  EXPECT_FALSE(works[0].done()) << "its buffers may still be touched";
  EndPool();
  job_->world().Unblock();
  EXPECT_EQ(Message(works[0].Wait()), "all_reduce #1 of train/1: rank 0 left: \"stop\"");
}

TEST_F(GroupResidueTest, ADeviceWithResidueGetsNoNewGroupUntilItIsGivenBack) {
  FakeWorld::Rules rules;
  rules.finalize_hangs = true;
  Start(rules);
  Acquire();
  EXPECT_FALSE(Close().ok());
  lease_.Release();
  for (const char* name : {"train", "other"}) {
    GroupSpec spec = Spec();
    spec.name = name;
    const absl::Status refused = job_->pool(0).Acquire(spec).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(refused), HasSubstr("no new group on cpu in this process"));
    EXPECT_THAT(Message(refused), HasSubstr("group 'train/1' left residue there: fake did not"));
  }
  ASSERT_EQ(job_->pool(0).LiveGroups().size(), 1u) << "the attempts have not erased it";
  // Nor is there a way round it by another pool of the process.
  TestJob second(1);
  EXPECT_THAT(Message(second.pool(0).Acquire(Spec()).status()), HasSubstr("left residue there"));
  ComeBack();
  EXPECT_THAT(job_->pool(0).LiveGroups(), IsEmpty());
  job_->world().rules.clear();
  Acquire();
  EXPECT_TRUE(Close().ok());
}

}  // namespace
}  // namespace muster
