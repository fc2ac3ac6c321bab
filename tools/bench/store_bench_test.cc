#include "muster/tools/bench/store_bench.h"

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/launch/private_folder.h"

namespace muster {
namespace bench {
namespace {

using ::testing::HasSubstr;

class StoreBenchTest : public ::testing::TestWithParam<const char*> {
 protected:
  // A unix socket's path has to be short.
  const absl::StatusOr<std::unique_ptr<PrivateFolder>> folder_ = PrivateFolder::Create("/tmp");

  StoreCost Measure(int ranks, BackendRegistry* backends = nullptr) {
    absl::StatusOr<std::unique_ptr<StoreBench>> bench =
        StoreBench::Create(ranks, (*folder_)->path(), backends);
    EXPECT_TRUE(bench.ok()) << bench.status();
    if (!bench.ok()) return {};
    const absl::StatusOr<StoreCost> cost = (*bench)->CreateAndClose(GetParam());
    EXPECT_TRUE(cost.ok()) << cost.status();
    return cost.value_or(StoreCost());
  }
};

// Else what is said of 256 ranks is not said of these backends.
TEST_P(StoreBenchTest, AStandInSaysToTheStoreWhatItsBackendDoes) {
  for (int ranks : {2, 5}) {
    const StoreCost stand_in = Measure(ranks);
    const StoreCost real = Measure(ranks, &BackendRegistry::Global());
    // How many ask for the close before they hear that somebody has is a matter of luck.
    EXPECT_NEAR(stand_in.requests, real.requests, 1) << ranks;
    EXPECT_NEAR(stand_in.bytes / real.bytes, 1, 0.2) << stand_in.bytes << " and " << real.bytes;
  }
}

TEST_P(StoreBenchTest, WhatARankAsksDoesNotGrowWithTheirNumber) {
  // It comes to the meeting, to an exchange or two, to "all connected", asks for the close, votes;
  // rank 0 writes the record, and the one who lost the race for the close asks no second time.
  for (int ranks : {2, 16}) {
    const StoreCost cost = Measure(ranks);
    EXPECT_GE(cost.requests, 4) << ranks;
    EXPECT_LE(cost.requests, 7) << ranks;
    EXPECT_GT(cost.server_us, 0);
    EXPECT_GT(cost.bytes, 0);
    EXPECT_GT(cost.slowest, absl::ZeroDuration());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, StoreBenchTest,
                         ::testing::Values("muster/reference", "muster/gloo"),
                         [](const auto& info) {
                           return absl::StrCat(info.index == 0 ? "Reference" : "Gloo");
                         });

TEST(StoreBenchErrorsTest, ABackendThatIsNotThereIsNamed) {
  const absl::StatusOr<std::unique_ptr<PrivateFolder>> folder = PrivateFolder::Create("/tmp");
  ASSERT_TRUE(folder.ok()) << folder.status();
  absl::StatusOr<std::unique_ptr<StoreBench>> bench = StoreBench::Create(2, (*folder)->path());
  ASSERT_TRUE(bench.ok()) << bench.status();
  EXPECT_THAT(std::string((*bench)->CreateAndClose("muster/nothing").status().message()),
              HasSubstr("muster/nothing: "));
}

}  // namespace
}  // namespace bench
}  // namespace muster
