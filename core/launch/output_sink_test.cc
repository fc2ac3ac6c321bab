#include "muster/core/launch/output_sink.h"

#include <sys/ioctl.h>

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/core/launch/output_queue.h"
#include "muster/core/launch/test_terminal.h"

namespace muster {
namespace {

// What was queued since the last call, for each of the two streams.
std::string Take(PrefixedOutput& output, OutputStream stream) {
  OutputQueue* queue = output.Queues()[stream == OutputStream::kOutput ? 0 : 1];
  std::string text(queue->pending());
  queue->Drop();
  return text;
}

class TerminalOutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!terminal_.valid()) GTEST_SKIP() << "no pseudo-terminal can be had here";
  }

  // What comes to the screen when `rank` writes `bytes`.
  std::string Write(int rank, absl::string_view bytes,
                    OutputStream stream = OutputStream::kOutput) {
    output_.Write(rank, stream, bytes);
    return Take(output_, OutputStream::kOutput);
  }

  TestTerminal terminal_;
  PrefixedOutput output_{2, terminal_.fd(), terminal_.fd()};
};

TEST_F(TerminalOutputTest, TheTerminalHasAWidth) {
  EXPECT_EQ(output_.columns(), 80);  // not known
  const winsize window = {/*ws_row=*/24, /*ws_col=*/12, 0, 0};
  ASSERT_EQ(ioctl(terminal_.fd(), TIOCSWINSZ, &window), 0);
  EXPECT_EQ(output_.columns(), 12);
}

TEST_F(TerminalOutputTest, ABarThatWouldWrapIsCut) {
  const winsize window = {/*ws_row=*/24, /*ws_col=*/8, 0, 0};
  ASSERT_EQ(ioctl(terminal_.fd(), TIOCSWINSZ, &window), 0);
  EXPECT_EQ(Write(0, "\r12345"), "[0] 123");
  EXPECT_EQ(Write(0, "\r\u2588\u2588\u2588\u2588"), "\r\x1b[K[0] \u2588\u2588\u2588");
}

TEST_F(TerminalOutputTest, ABarIsRedrawnInPlaceWithItsRank) {
  EXPECT_EQ(Write(0, "\r10%"), "[0] 10%");
  EXPECT_EQ(Write(0, "\r20%"), "\r\x1b[K[0] 20%");
  EXPECT_EQ(Write(0, "\r20%"), "");  // as it is
  EXPECT_EQ(Write(0, "\r   \rdone\n"), "\r\x1b[K[0] done\n");
  EXPECT_EQ(Write(0, "more\n"), "[0] more\n");
}

TEST_F(TerminalOutputTest, LinesOfOtherRanksAndOfErrorsPassAboveTheBar) {
  Write(0, "\r10%");
  EXPECT_EQ(Write(1, "hello\n"), "\r\x1b[K[1] hello\n[0] 10%");
  EXPECT_EQ(Write(0, "oh\n", OutputStream::kErrors), "\r\x1b[K[0] oh\n[0] 10%");
  EXPECT_EQ(Write(1, "a part"), "");
}

TEST_F(TerminalOutputTest, TheBarOfARankThatEndsDoesNotStayBelowTheOthers) {
  Write(0, "\r10%");
  output_.Finish(0, OutputStream::kOutput);
  EXPECT_EQ(Take(output_, OutputStream::kOutput), "\r\x1b[K[0] 10%\n");
  EXPECT_EQ(Write(1, "hello\n"), "[1] hello\n");
}

TEST_F(TerminalOutputTest, TheLastBarIsShown) {
  Write(0, "\r10%");
  EXPECT_EQ(Write(1, "\r11%"), "\r\x1b[K[1] 11%");
  EXPECT_EQ(Write(1, "\r   \r"), "\r\x1b[K");
}

TEST(PrefixedOutputTest, WithoutATerminalBytesPassUnchangedAndStreamsAreApart) {
  PrefixedOutput output(1, -1, -1);
  EXPECT_EQ(output.columns(), 0);
  output.Write(0, OutputStream::kOutput, "\r10%\r20%\n");
  output.Write(0, OutputStream::kErrors, "oh\n");
  EXPECT_EQ(Take(output, OutputStream::kOutput), "[0] \r10%\r20%\n");
  EXPECT_EQ(Take(output, OutputStream::kErrors), "[0] oh\n");
}

}  // namespace
}  // namespace muster
