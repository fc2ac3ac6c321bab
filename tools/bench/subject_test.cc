#include "muster/tools/bench/subject.h"

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What two ranks with the same value would get.
absl::Status Double(absl::Span<float> values) {
  for (float& value : values) value *= 2;
  return absl::OkStatus();
}

TEST(SubjectTest, OneSumIsCheckedAndOneLetsTheRanksBeginBeforeThoseThatAreMeasured) {
  std::vector<size_t> sizes;
  // Rank 0 of 3 has 1, and the sum of 1, 2, 3 is 6.
  const absl::StatusOr<absl::Duration> time =
      TimeAllReduce(0, 3, 5, 4, [&](absl::Span<float> values) {
        sizes.push_back(values.size());
        for (float& value : values) value *= 6;
        return absl::OkStatus();
      });
  ASSERT_TRUE(time.ok()) << time.status();
  EXPECT_THAT(sizes, ElementsAre(5, 1, 5, 5, 5, 5));
}

TEST(SubjectTest, AWrongSumIsNoResult) {
  const absl::Status status = TimeAllReduce(0, 2, 5, 1, Double).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("a sum over 2 ranks is 2: expected 3"));
}

TEST(SubjectTest, AnErrorEndsIt) {
  int calls = 0;
  const auto fail = [&](absl::Span<float> values) {
    for (float& value : values) value *= 3;
    return ++calls == 3 ? absl::UnavailableError("gone") : absl::OkStatus();
  };
  EXPECT_EQ(TimeAllReduce(0, 2, 1, 10, fail).status(), absl::UnavailableError("gone"));
  EXPECT_EQ(calls, 3);
}

TEST(SubjectTest, ManySmallSumsOrOneLargeOneMakeASample) {
  EXPECT_EQ(IterationsFor(4), 100);
  EXPECT_EQ(IterationsFor(int64_t{4} << 10), 100);
  EXPECT_EQ(IterationsFor(int64_t{1} << 20), 8);
  EXPECT_EQ(IterationsFor(int64_t{16} << 20), 1);
  EXPECT_EQ(IterationsFor(int64_t{1} << 30), 1);
}

}  // namespace
}  // namespace bench
}  // namespace muster
