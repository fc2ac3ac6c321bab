#include "muster/core/launch/line_prefixer.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

class LinePrefixerTest : public ::testing::Test {
 protected:
  std::string Add(absl::string_view bytes) {
    std::string out;
    prefixer_.Add(bytes, &out);
    return out;
  }
  std::string Finish() {
    std::string out;
    prefixer_.Finish(&out);
    return out;
  }

  LinePrefixer prefixer_{3};
};

TEST_F(LinePrefixerTest, EachWholeLineGetsTheRank) {
  EXPECT_EQ(Add("a\nb\n"), "[3] a\n[3] b\n");
  EXPECT_EQ(Finish(), "");
}

TEST_F(LinePrefixerTest, APartOfALineWaitsForItsEnd) {
  EXPECT_EQ(Add("lo"), "");
  EXPECT_EQ(Add("ss"), "");
  EXPECT_EQ(Add(" 0.3\nacc"), "[3] loss 0.3\n");
  EXPECT_EQ(Finish(), "[3] acc\n");
  EXPECT_EQ(Finish(), "");
}

TEST_F(LinePrefixerTest, EmptyLinesStay) { EXPECT_EQ(Add("\n\na\n"), "[3] \n[3] \n[3] a\n"); }

TEST_F(LinePrefixerTest, BytesPassUnchanged) {
  const std::string bytes("\0\r\x1b[0m\xff", 7);
  EXPECT_EQ(Add(bytes + "\n"), "[3] " + bytes + "\n");
}

TEST_F(LinePrefixerTest, AnEndlessLineComesInPieces) {
  const std::string max(LinePrefixer::kMaxLine, 'x');
  EXPECT_EQ(Add(max), "");
  EXPECT_EQ(Add("\n"), "[3] " + max + "\n");
  EXPECT_EQ(Add(max + max + "y\n"), "[3] " + max + "\n[3] " + max + "\n[3] y\n");
}

}  // namespace
}  // namespace muster
