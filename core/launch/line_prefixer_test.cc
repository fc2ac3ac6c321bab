#include "muster/core/launch/line_prefixer.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

class LinePrefixerTest : public ::testing::Test {
 protected:
  explicit LinePrefixerTest(LinePrefixer::Mode mode = LinePrefixer::kKeep) : prefixer_(3, mode) {}

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

  LinePrefixer prefixer_;
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

class RedrawTest : public LinePrefixerTest {
 protected:
  RedrawTest() : LinePrefixerTest(LinePrefixer::kRedraw) {}
};

TEST_F(RedrawTest, ABarIsWhatTheUnfinishedLineShowsLast) {
  EXPECT_EQ(Add("\r10%"), "");
  EXPECT_EQ(prefixer_.bar(), "[3] 10%");
  EXPECT_EQ(Add("\r20%\r3"), "");
  EXPECT_EQ(prefixer_.bar(), "[3] 3");
  EXPECT_EQ(Add("0%"), "");
  EXPECT_EQ(prefixer_.bar(), "[3] 30%");
}

TEST_F(RedrawTest, ABarMayEndWithItsCarriageReturn) {
  EXPECT_EQ(Add("10%\r"), "");
  EXPECT_EQ(prefixer_.bar(), "[3] 10%");
  EXPECT_EQ(Add("20%\r"), "");
  EXPECT_EQ(prefixer_.bar(), "[3] 20%");
}

TEST_F(RedrawTest, BlanksWipeABarOut) {
  Add("\r10%");
  EXPECT_EQ(Add("\r   \r"), "");
  EXPECT_EQ(prefixer_.bar(), "");
}

TEST_F(RedrawTest, TheLineAfterABarHasNothingOfIt) {
  EXPECT_EQ(Add("\r10%\r   \rdone\n"), "[3] done\n");
  EXPECT_EQ(prefixer_.bar(), "");
  EXPECT_EQ(Add("unfinished"), "");
  EXPECT_EQ(prefixer_.bar(), "");
  EXPECT_EQ(Finish(), "[3] unfinished\n");
}

TEST_F(RedrawTest, ABarThatTheProgramLeavesStaysAsALine) {
  Add("\r10%\r100%");
  EXPECT_EQ(Finish(), "[3] 100%\n");
  EXPECT_EQ(prefixer_.bar(), "");
}

TEST_F(RedrawTest, LinesThatEndWithBothCharactersStayWhole) {
  EXPECT_EQ(Add("a\r\nb\r"), "[3] a\r\n");
  EXPECT_EQ(Add("\nc\n"), "[3] b\r\n[3] c\n");
}

TEST_F(RedrawTest, ABarWithoutAnEndIsNoEndlessLine) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Add("\r" + std::string(LinePrefixer::kMaxLine / 2, 'x')), "");
  }
}

}  // namespace
}  // namespace muster
