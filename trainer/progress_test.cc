#include "muster/trainer/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class FakeOutput : public ProgressOutput {
 public:
  explicit FakeOutput(bool terminal, int columns = 100) : terminal_(terminal), columns_(columns) {}
  bool is_terminal() const override { return terminal_; }
  int columns() const override { return columns_; }
  void Write(absl::string_view text) noexcept override { text_.append(text.data(), text.size()); }
  void set_columns(int columns) { columns_ = columns; }

  // What was written since the last call.
  std::string Take() { return std::exchange(text_, ""); }

 private:
  const bool terminal_;
  int columns_;
  std::string text_;
};

class ProgressTest : public ::testing::Test {
 protected:
  std::function<absl::Time()> Clock() {
    return [this] { return now_; };
  }

  absl::Time now_ = absl::UnixEpoch();
  const MetricSums sums_ = {/*loss=*/20, /*correct=*/30, /*count=*/40};
};

TEST_F(ProgressTest, OnATerminalABarIsRedrawnInPlace) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("fit 2/5", 6, 24, sums_, 1234.5);
  EXPECT_EQ(
      output.Take(),
      "\rfit 2/5 [======>                 ] 6/24  loss 0.5000  accuracy 0.7500  1234 samples/s");
  now_ += absl::Seconds(1);
  progress.Update("fit 2/5", 24, 24, sums_, 1234.5);
  const std::string full = output.Take();
  EXPECT_THAT(full, StartsWith("\rfit 2/5 [========================] 24/24 "));
  EXPECT_EQ(full.find('\n'), std::string::npos);
}

TEST_F(ProgressTest, ARegressionHasNoAccuracyInItsBar) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("fit 2/5", 6, 24, {/*loss=*/20, /*correct=*/0, /*count=*/40, /*unrated=*/40},
                  1234.5);
  EXPECT_EQ(output.Take(),
            "\rfit 2/5 [======>                 ] 6/24  loss 0.5000  1234 samples/s");
}

TEST_F(ProgressTest, TheBarIsDrawnAtMostTenTimesASecond) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {  // one second
    progress.Update("fit", i, 1000, sums_, 1);
    if (!output.Take().empty()) ++drawn;
    now_ += absl::Milliseconds(1);
  }
  EXPECT_EQ(drawn, 10);
}

TEST_F(ProgressTest, ALineReplacesTheBar) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("fit", 1, 2, sums_, 1);
  const size_t width = output.Take().size() - 1;
  progress.Line("done");
  EXPECT_EQ(output.Take(), "\r" + std::string(width, ' ') + "\rdone\n");
  progress.Line("again");
  EXPECT_EQ(output.Take(), "again\n");
}

TEST_F(ProgressTest, AShorterBarLeavesNothingOfALongerOne) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("a long label", 1, 2, sums_, 123456);
  const size_t width = output.Take().size();
  now_ += absl::Seconds(1);
  progress.Update("short", 1, 2, sums_, 1);
  EXPECT_EQ(output.Take().size(), width);
}

// A line that wraps cannot be redrawn: each redraw would leave rubbish.
TEST_F(ProgressTest, TheBarFitsIntoTheTerminal) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  const auto drawn = [&](int columns) {
    output.set_columns(columns);
    now_ += absl::Seconds(1);
    progress.Update("fit 2/5", 215, 430, sums_, 20311);
    std::string text = output.Take().substr(1);
    EXPECT_LT(text.size(), static_cast<size_t>(columns));
    return std::string(absl::StripTrailingAsciiWhitespace(text));
  };
  EXPECT_EQ(drawn(80),
            "fit 2/5 [=======>      ] 215/430  loss 0.5000  accuracy 0.7500  20311 samples/s");
  EXPECT_EQ(drawn(74), "fit 2/5 [====>   ] 215/430  loss 0.5000  accuracy 0.7500  20311 samples/s");
  EXPECT_EQ(drawn(73), "fit 2/5 [============>           ] 215/430  loss 0.5000  accuracy 0.7500");
  EXPECT_EQ(drawn(40), "fit 2/5 [====>   ] 215/430  loss 0.5000");
  EXPECT_EQ(drawn(30), "fit 2/5 [=====>     ] 215/430");
  EXPECT_EQ(drawn(20), "fit 2/5 215/430");
  EXPECT_EQ(drawn(9), "fit 2/5");
  for (int columns = 2; columns <= 120; ++columns) drawn(columns);
}

TEST_F(ProgressTest, ABarIsTakenAwayWithinATerminalThatBecameNarrower) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("fit", 1, 2, sums_, 1);
  output.Take();
  output.set_columns(20);
  progress.Line("done");
  EXPECT_EQ(output.Take(), "\r" + std::string(19, ' ') + "\rdone\n");
}

// A bar is taken away by a destructor, also while an exception passes.
TEST_F(ProgressTest, AnOutputCannotThrow) {
  static_assert(noexcept(std::declval<ProgressOutput&>().Write("")));
}

TEST_F(ProgressTest, AnUnfinishedBarGoesWithItsProgress) {
  FakeOutput output(/*terminal=*/true);
  {
    Progress progress(&output, Clock());
    progress.Update("fit", 1, 2, sums_, 1);
    output.Take();
  }
  EXPECT_THAT(output.Take(), EndsWith(" \r"));
}

TEST_F(ProgressTest, WithoutATerminalThereAreLinesAlone) {
  FakeOutput output(/*terminal=*/false);
  {
    Progress progress(&output, Clock());
    progress.Update("fit", 1, 2, sums_, 1);
    EXPECT_THAT(output.Take(), IsEmpty());
    progress.Line("fit 1/2: loss 0.5");
    EXPECT_EQ(output.Take(), "fit 1/2: loss 0.5\n");
  }
  EXPECT_THAT(output.Take(), IsEmpty());
}

TEST_F(ProgressTest, WithoutAnOutputItIsSilent) {
  Progress progress(nullptr, Clock());
  progress.Update("fit", 1, 2, sums_, 1);
  progress.Line("nothing");
}

TEST_F(ProgressTest, AnEmptyStageDrawsAnEmptyBar) {
  FakeOutput output(/*terminal=*/true);
  Progress progress(&output, Clock());
  progress.Update("test", 0, 0, MetricSums(), 0);
  EXPECT_THAT(output.Take(), HasSubstr("0/0  loss 0.0000"));
}

TEST(ProgressOutputTest, AFileIsNoTerminalAndGetsEachLineAtOnce) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  auto output = ProgressOutput::OfFile(file);
  EXPECT_FALSE(output->is_terminal());
  output->Write("a line\n");
  char text[16] = {};
  EXPECT_EQ(pread(fileno(file), text, sizeof(text), 0), 7);
  EXPECT_STREQ(text, "a line\n");
  std::fclose(file);
}

TEST(ProgressOutputTest, BehindALauncherTheRankTakesItsPartOfTheLine) {
  if (isatty(STDOUT_FILENO) == 1) GTEST_SKIP() << "stdout is a terminal, with a width of its own";
  const auto columns = [](Environment::Variables variables) {
    return ProgressOutput::OfStandardOutput(Environment(std::move(variables)))->columns();
  };
  EXPECT_EQ(columns({}), 80);
  EXPECT_EQ(columns({{"COLUMNS", "120"}}), 120);
  EXPECT_EQ(columns({{"COLUMNS", "wide"}}), 80);
  EXPECT_EQ(columns({{"COLUMNS", "0"}}), 80);
  EXPECT_EQ(columns({{"MUSTER_TERMINAL", "1"}, {"MUSTER_RANK", "0"}}), 76);
  EXPECT_EQ(columns({{"MUSTER_TERMINAL", "1"}, {"MUSTER_RANK", "12"}, {"COLUMNS", "40"}}), 35);
}

// Whatever this test's own stdout is, the launcher's word for the terminal behind it counts.
TEST(ProgressOutputTest, ALauncherOnATerminalMeansATerminal) {
  EXPECT_TRUE(ProgressOutput::OfStandardOutput(
                  Environment(Environment::Variables{{"MUSTER_TERMINAL", "1"}}))
                  ->is_terminal());
  EXPECT_EQ(ProgressOutput::OfStandardOutput(Environment(Environment::Variables{}))->is_terminal(),
            isatty(STDOUT_FILENO) == 1);
}

}  // namespace
}  // namespace muster
