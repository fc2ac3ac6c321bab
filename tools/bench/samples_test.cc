#include "muster/tools/bench/samples.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace bench {
namespace {

using ::testing::HasSubstr;

TEST(SamplesTest, WhatARankWritesIsWhatIsRead) {
  const std::vector<Sample> written = {{"all_reduce_f32_1MiB_2_ranks", "muster/gloo", 1.0 / 3},
                                       {"store_2_ranks", "muster/gloo", 21034.25, "bytes/rank"}};
  const absl::StatusOr<std::vector<Sample>> read = ParseSamples(FormatSamples(written));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].case_name, "all_reduce_f32_1MiB_2_ranks");
  EXPECT_EQ((*read)[0].subject, "muster/gloo");
  EXPECT_EQ((*read)[0].value, 1.0 / 3);
  EXPECT_EQ((*read)[0].unit, "us");
  EXPECT_EQ((*read)[1].value, 21034.25);
  EXPECT_EQ((*read)[1].unit, "bytes/rank");
}

TEST(SamplesTest, NothingIsNoSamples) { EXPECT_TRUE(ParseSamples("")->empty()); }

TEST(SamplesTest, AFileThatWasCutShortOrMangledIsRefusedByLine) {
  for (const std::string bad :
       {"a\tb\t1\tus\nc\td\t2\tus", "a\tb\t1\tus\nc\td\tx\tus\n", "a\tb\t1\tus\nc\t2\n",
        "a\tb\t1\tus\n\n", "a\tb\t1\tus\nc\td\tnan\tus\n", "a\tb\t1\tus\nc\td\t1\t\n"}) {
    const absl::Status status = ParseSamples(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("line 2 of the samples")) << bad;
  }
}

}  // namespace
}  // namespace bench
}  // namespace muster
