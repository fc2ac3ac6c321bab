#include "muster/testing/contract/forked_job.h"

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/core/lifecycle/state.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/contract/forked_process.h"
#include "muster/testing/contract/served_store.h"

namespace muster::testing {
namespace {

absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

}  // namespace

// --- a rank

std::unique_ptr<GroupPool> JobRank::MakePool() {
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(world, options);
  if (!pool.ok()) Fail(pool.status().message());
  return *std::move(pool);
}

GroupLease JobRank::Acquire(GroupPool& pool) {
  absl::StatusOr<GroupLease> lease = pool.Acquire(spec);
  if (!lease.ok()) Fail(lease.status().message());
  return *std::move(lease);
}

void JobRank::Fail(absl::string_view why) {
  link.Say(absl::StrCat("rank ", world.rank, " cannot go on: ", why));
  _exit(1);
}

absl::Status AllReduceOne(const GroupLease& lease) {
  float value = 1;
  if (absl::Status reduced = lease->AllReduce(Buffer::Of(value), ReduceOp::kSum); !reduced.ok()) {
    return reduced;
  }
  if (value == static_cast<float>(lease->size())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the sum of ", lease->size(), " ones is ", value));
}

void UseUntilItFails(JobRank& rank) {
  const ProcessHoldings before = ProcessHoldings::Now();
  std::unique_ptr<GroupPool> pool = rank.MakePool();
  absl::StatusOr<GroupLease> lease = pool->Acquire(rank.spec);
  if (lease.ok()) {
    rank.link.Say("ready");
    absl::Status used;
    while (used.ok()) used = AllReduceOne(*lease);
    // Bounded, and whatever it is, it is over then.
    lease->Close().IgnoreError();
    rank.link.Say(absl::StrCat(Name((*lease)->state()), ": ", used.message()));
    lease->Release();
  } else {
    rank.link.Say(absl::StrCat("no group: ", lease.status().message()));
  }
  pool.reset();
  rank.link.Say(
      absl::StrCat("left: ", ProcessHoldings::Beyond(before, Scaled(absl::Seconds(2))).ToString()));
  rank.link.Await();
}

// --- the job

ForkedJob::ForkedJob(int ranks, const std::string& backend)
    : store_(ServedStore::Start(ranks)), processes_(static_cast<size_t>(ranks)) {
  EXPECT_TRUE(store_.ok()) << store_.status();
  spec.name = "train";
  spec.backend = backend;
  spec.setup_timeout = spec.operation_timeout = Scaled(absl::Seconds(2));
  spec.close_timeout = Scaled(absl::Seconds(1));
  options.heartbeat_timeout = Scaled(absl::Seconds(2));
  options.connect_timeout = Scaled(absl::Seconds(10));
  options.close_timeout = Scaled(absl::Seconds(1));
}

void ForkedJob::Start(int rank, const std::function<void(JobRank&)>& body) {
  ASSERT_TRUE(store_.ok());
  absl::StatusOr<ForkedProcess> process = ForkedProcess::Start([&](TestLink& link) {
    for (ForkedProcess& other : processes_) other.Forget();
    JobRank self{link, store_->RankOf(rank), spec, options};
    body(self);
  });
  ASSERT_TRUE(process.ok()) << process.status();
  this->process(rank) = *std::move(process);
}

std::string ForkedJob::Hear(int rank, absl::Duration patience) {
  return process(rank).Hear(MonotonicNow() + Scaled(patience)).value_or("nothing");
}

int64_t ForkedJob::KeysLeft() {
  const absl::Time deadline = MonotonicNow() + Scaled(absl::Seconds(5));
  while (true) {
    const absl::StatusOr<ServedStore::Contents> contents = store_->Look();
    if (!contents.ok()) return -1;
    if (contents->keys == 0 || MonotonicNow() >= deadline) return contents->keys;
  }
}

}  // namespace muster::testing
