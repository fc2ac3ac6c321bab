#include "muster/testing/multi_rank_test.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/environment.h"
#include "muster/core/rendezvous/world.h"
#include "muster/testing/one_line.h"
#include "muster/testing/test_barrier.h"

namespace muster {
namespace testing {
namespace {

// FNV-1a: the same in all processes, which absl's is not.
uint32_t Hash(absl::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// "AllReduceTest.SumsOverRanks" in the letters of a group's name, so that messages name the test
// and no two tests share a group.
std::string NameOfCurrentTest() {
  constexpr size_t kLongest = 64;
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = absl::StrCat(test->test_suite_name(), ".", test->name());
  for (char& c : name) {
    const bool allowed =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_.-", c);
    if (!allowed) c = '-';
  }
  if (name.size() <= kLongest) return name;
  // The end of a name tells more than its beginning: the parameter's value. The hash tells the
  // beginnings apart.
  const std::string hash = absl::StrCat("-", absl::Hex(Hash(name), absl::kZeroPad8));
  return absl::StrCat(name.substr(name.size() - (kLongest - hash.size())), hash);
}

// For the peers, whose work fails of it: rank 1 left: "label 17 out of range".
std::string WhyWeLeave() {
  const ::testing::TestResult& result =
      *::testing::UnitTest::GetInstance()->current_test_info()->result();
  std::string why = "its test failed";
  for (int i = 0; i < result.total_part_count(); ++i) {
    if (!result.GetTestPartResult(i).failed()) continue;
    why = result.GetTestPartResult(i).message();
    break;
  }
  return OneLine(why);
}

}  // namespace

MultiRankTest::MultiRankTest() {
  const Environment environment = Environment::OfProcess();
  backend_ = environment.Get("MUSTER_TEST_BACKEND").value_or("");
  // pool() says what is wrong, if something is.
  const absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (!world.ok()) return;
  rank_ = world->rank;
  world_size_ = world->size;
}

MultiRankTest::~MultiRankTest() {
  if (pool_ == nullptr) return;
  if (HasFailure()) {
    // Closing waits for peers that may wait for us in the middle of a collective.
    pool_->Abort(absl::AbortedError(WhyWeLeave()));
    lease_ = GroupLease();
    return;
  }
  lease_ = GroupLease();
  EXPECT_OK(pool_->Close(Scaled(absl::Seconds(5))));
}

GroupPool& MultiRankTest::pool() {
  if (pool_ == nullptr) {
    // Their pools of the test before are gone then: no rank's goodbye is news of this test.
    const absl::Status here = WaitForTest(Environment::OfProcess(), Scaled(absl::Seconds(10)));
    if (!here.ok()) throw NoGroup(std::string(here.message()));
    absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::FromEnvironment(pool_options());
    if (!pool.ok()) throw NoGroup(absl::StrCat("no pool: ", pool.status().message()));
    pool_ = *std::move(pool);
  }
  return *pool_;
}

GroupLease& MultiRankTest::lease() {
  if (lease_.empty()) {
    absl::StatusOr<GroupLease> lease = pool().Acquire(spec());
    if (!lease.ok()) throw NoGroup(absl::StrCat("no group: ", lease.status().message()));
    lease_ = *std::move(lease);
  }
  return lease_;
}

Group& MultiRankTest::group() { return *lease(); }

void MultiRankTest::Barrier() { ASSERT_OK(group().Barrier()); }

GroupSpec MultiRankTest::spec() const {
  GroupSpec spec;
  spec.name = NameOfCurrentTest();
  if (!backend_.empty()) spec.backend = backend_;
  spec.setup_timeout = Scaled(absl::Seconds(10));
  spec.operation_timeout = Scaled(absl::Seconds(10));
  spec.close_timeout = Scaled(absl::Seconds(5));
  return spec;
}

PoolOptions MultiRankTest::pool_options() const {
  PoolOptions options;
  options.close_timeout = Scaled(absl::Seconds(5));
  options.heartbeat_timeout = Scaled(absl::Seconds(2));
  options.connect_timeout = Scaled(absl::Seconds(10));
  return options;
}

}  // namespace testing
}  // namespace muster
