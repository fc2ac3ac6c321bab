// Tests that run as N real processes: multi_rank_test.bzl starts the binary once a rank, under a
// launcher that says who failed first and that nothing is left.
//
//   class AllReduceTest : public muster::testing::MultiRankTest {};
//
//   TEST_F(AllReduceTest, SumsOverRanks) {
//     float value = rank() + 1;
//     ASSERT_OK(group().AllReduce(muster::Buffer::Of(value), muster::ReduceOp::kSum));
//     EXPECT_EQ(value, world_size() * (world_size() + 1) / 2);
//   }
//
// main() is the macro's, and has called absl::InitializeLog(), which nobody may do twice.
//
// Every rank runs every test. A failure on one rank aborts its pool at the test's end, so the
// others learn it as the cause of theirs; the report sorts out who was first.
#ifndef MUSTER_TESTING_MULTI_RANK_TEST_H_
#define MUSTER_TESTING_MULTI_RANK_TEST_H_

#include <memory>
#include <stdexcept>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group/group.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/testing/status_matchers.h"

namespace muster {
namespace testing {

// Thrown by pool() and group() when they cannot give what they promise: GoogleTest turns it into a
// failure of the test with this message. The way out of a test's body from inside a function.
class NoGroup : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A pool of its own for each test, made when the test first asks for it and every rank has come to
// the test, and ended after the test's object: what a derived fixture holds (leases) ends before.
// Ended means closed, or aborted with the first failure as its cause when the test failed. What it
// leaves fails the test, by a listener.
class MultiRankTest : public ::testing::Test {
 protected:
  MultiRankTest();
  ~MultiRankTest() override;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  // The cell's: "gloo".
  const std::string& backend() const { return backend_; }

  GroupPool& pool();
  // A ready group of this test's own name and the cell's backend, over all ranks: its first call is
  // collective.
  Group& group();
  // The lease behind group(): to release, close or abort it.
  GroupLease& lease();
  // Waits for every rank.
  void Barrier();

  // What group() asks for. Bounds fit for tests: 10 s each, 5 s to close, scaled for sanitizers.
  virtual GroupSpec spec() const;
  // What they point to is used until the pool's end: an observer is a static, or of a base class
  // that a fixture names before this one.
  virtual PoolOptions pool_options() const;

  // For timeouts of a test's own.
  static absl::Duration Scaled(absl::Duration duration) { return TimeoutScale() * duration; }

 private:
  int rank_ = 0;
  int world_size_ = 1;
  std::string backend_;
  std::unique_ptr<GroupPool> pool_;
  GroupLease lease_;
};

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_MULTI_RANK_TEST_H_
