// A queue never blocks whoever writes, and loses nothing for it.
#include "muster/core/launch/output_queue.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/core/launch/test_terminal.h"
#include "muster/core/launch/unique_fd.h"

namespace muster {
namespace {

constexpr size_t kPage = 4096;

std::string Lines(char c, size_t count) {
  std::string lines;
  for (size_t i = 0; i < count; ++i) lines += std::string(63, c) + '\n';
  return lines;
}

// Gives up on what has been full for long.
void WriteOften(OutputQueue& queue) {
  for (int i = 0; i < 5000 && !queue.empty(); ++i) queue.WriteSome();
}

std::string ReadSome(int fd) {
  std::string text(1 << 16, 0);
  const ssize_t n = read(fd, text.data(), text.size());
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

class PipeQueuesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    reader_ = UniqueFd(fds[0]);
    writer_ = UniqueFd(fds[1]);
  }

  // Two of them write four times what the pipe holds, which is read meanwhile or not.
  void ExpectThatTwoDoNotBlock(OutputQueue& one, OutputQueue& other) {
    const size_t lines = 2048;
    one.Add(Lines('1', lines));
    other.Add(Lines('2', lines));
    const int flags = fcntl(writer_.get(), F_GETFL);
    WriteOften(one);
    WriteOften(other);
    EXPECT_FALSE(one.empty());
    EXPECT_FALSE(other.empty());
    // Room for one of the two.
    char page[kPage];
    ASSERT_EQ(read(reader_.get(), page, sizeof(page)), static_cast<ssize_t>(kPage));
    size_t taken = kPage;
    WriteOften(one);
    WriteOften(other);
    while (!one.empty() || !other.empty()) {
      taken += ReadSome(reader_.get()).size();
      WriteOften(other);
      WriteOften(one);
    }
    EXPECT_FALSE(one.broken() || other.broken());
    EXPECT_EQ(fcntl(writer_.get(), F_GETFL), flags) << "which others share";
    writer_.Reset();
    EXPECT_LE(taken, 2 * lines * 64);
    EXPECT_GE(taken + (1 << 16), 2 * lines * 64);
  }

  UniqueFd reader_;
  UniqueFd writer_;
};

TEST_F(PipeQueuesTest, TwoQueuesIntoOneFullPipeDoNotBlock) {
  OutputQueue one(writer_.get());
  OutputQueue other(writer_.get());
  EXPECT_NE(one.fd(), writer_.get()) << "a description of its own";
  ExpectThatTwoDoNotBlock(one, other);
}

TEST_F(PipeQueuesTest, NorDoTheyWhereThePipeCannotBeOpenedAgain) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  OutputQueue one(writer_.get());
  OutputQueue other(writer_.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(one.fd(), writer_.get());
  ExpectThatTwoDoNotBlock(one, other);
}

TEST(OutputQueueTest, ATerminalThatNobodyReadsDoesNotBlock) {
  const TestTerminal terminal;
  if (!terminal.valid()) GTEST_SKIP() << "no pseudo-terminal can be had here";
  OutputQueue queue(terminal.fd());
  queue.Add(Lines('x', 4096));
  WriteOften(queue);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.broken());
}

TEST(OutputQueueTest, ASocketThatNobodyReadsDoesNotBlock) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd reader(fds[0]);
  const UniqueFd writer(fds[1]);
  OutputQueue queue(writer.get());
  const std::string text = Lines('x', 1 << 16);
  queue.Add(text);
  WriteOften(queue);
  EXPECT_FALSE(queue.empty());
  EXPECT_FALSE(queue.broken());
  const size_t first = text.size() - queue.pending().size();
  size_t read = 0;
  while (read < first) read += ReadSome(reader.get()).size();
  queue.WriteSome();
  EXPECT_GT(text.size() - queue.pending().size(), first);
}

// A description of its own would have an offset of its own, and overwrite what others wrote.
TEST(OutputQueueTest, AFileIsSharedWithThoseWhoWriteToItToo) {
  std::string path = ::testing::TempDir() + "/queueXXXXXX";
  const UniqueFd file(mkstemp(path.data()));
  ASSERT_TRUE(file.valid());
  unlink(path.c_str());
  OutputQueue one(file.get());
  OutputQueue other(file.get());
  one.Add("one\n");
  other.Add("other\n");
  one.WriteSome();
  other.WriteSome();
  char text[16] = {};
  ASSERT_EQ(pread(file.get(), text, sizeof(text), 0), 10);
  EXPECT_EQ(absl::string_view(text), "one\nother\n");
}

}  // namespace
}  // namespace muster
