#include "muster/core/observe/process_holdings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>  // NOLINT: a thread is what is counted

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ProcessHoldingsTest, CountsDescriptorsThreadsAndSegmentsAndSeesThemGo) {
  const ProcessHoldings baseline = ProcessHoldings::Now();
  EXPECT_TRUE(ProcessHoldings::Beyond(baseline, absl::ZeroDuration()).empty());
  EXPECT_GE(baseline.threads, 1);

  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  absl::Notification stop;
  std::thread thread([&] { stop.WaitForNotification(); });
  const int memory = memfd_create("segment", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, 4096), 0);
  void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(ProcessHoldings::Beyond(baseline, absl::ZeroDuration()).ToString(),
            "2 fds, 1 thread, 1 segment");

  close(fd);
  close(memory);
  munmap(mapped, 4096);
  stop.Notify();
  thread.join();
  EXPECT_EQ(ProcessHoldings::Beyond(baseline, absl::Seconds(10)).ToString(), "nothing");
}

TEST(ProcessHoldingsTest, FewerThanBeforeIsNothingLeft) {
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const ProcessHoldings baseline = ProcessHoldings::Now();
  close(fd);
  EXPECT_TRUE(ProcessHoldings::Beyond(baseline, absl::ZeroDuration()).empty());
}

TEST(ProcessHoldingsTest, WhatCannotBeCountedIsUnknownAndNotNothing) {
  const ProcessHoldings baseline = ProcessHoldings::Now();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // all taken
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const ProcessHoldings now = ProcessHoldings::Now();
  const ProcessHoldings left = ProcessHoldings::Beyond(baseline, absl::ZeroDuration());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(now.unknown, ::testing::HasSubstr("Too many open files"));
  EXPECT_FALSE(left.empty());
  EXPECT_THAT(left.ToString(), ::testing::StartsWith("unknown (cannot open /proc/self/"));
  EXPECT_FALSE(ProcessHoldings::Beyond(now, absl::ZeroDuration()).empty());
}

}  // namespace
}  // namespace muster
