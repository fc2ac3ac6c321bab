#include "muster/backends/gloo/gloo_options.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(GlooOptionsTest, NothingGivenIsTheDefault) {
  absl::StatusOr<GlooOptions> options = GlooOptions::Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->all_reduce, GlooOptions::AllReduce::kRing);
  EXPECT_EQ(options->segment_bytes, 1 << 20);
}

TEST(GlooOptionsTest, TakesWhatIsDocumented) {
  absl::StatusOr<GlooOptions> options =
      GlooOptions::Parse({{"all_reduce", "bcube"}, {"segment_bytes", "1024"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->all_reduce, GlooOptions::AllReduce::kBcube);
  EXPECT_EQ(options->segment_bytes, 1024);
  EXPECT_TRUE(GlooOptions::Parse({{"all_reduce", "ring"}}).ok());
}

TEST(GlooOptionsTest, AnUnknownOneIsRefusedWithThoseThatAreKnown) {
  EXPECT_EQ(GlooOptions::Parse({{"threads", "2"}}).status(),
            absl::InvalidArgumentError("the backend \"gloo\" has no option \"threads\": it has "
                                       "all_reduce, segment_bytes"));
}

TEST(GlooOptionsTest, ABadValueIsQuotedWithWhatIsAccepted) {
  EXPECT_EQ(GlooOptions::Parse({{"all_reduce", "tree"}}).status(),
            absl::InvalidArgumentError("option \"all_reduce\" of the backend \"gloo\" is "
                                       "\"tree\": it takes ring or bcube"));
  for (const char* value : {"", "0", "1023", "1073741825", "-1", "1k", "99999999999999999999"}) {
    EXPECT_EQ(GlooOptions::Parse({{"segment_bytes", value}}).status(),
              absl::InvalidArgumentError(
                  std::string("option \"segment_bytes\" of the backend \"gloo\" is \"") + value +
                  "\": it takes a whole number from 1024 to 1073741824"));
  }
}

}  // namespace
}  // namespace muster
