// What a report says of all ranks, and what becomes of the file that --report names.
#include "muster/trainer/examples/report.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>  // NOLINT(build/c++11): ranks are threads here

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReportTest, TheFileIsReplaced) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/report.json");
  Report report;
  report.test_accuracy = 0.25;
  ASSERT_TRUE(WriteReport(path, report).ok());
  report.test_accuracy = 0.5;
  EXPECT_TRUE(CheckReport(path).ok());
  ASSERT_TRUE(WriteReport(path, report).ok());
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  EXPECT_EQ(content.str(), report.ToJson());
  EXPECT_THAT(content.str(), HasSubstr("\"test_accuracy\": 0.5"));
}

TEST(ReportTest, APipeIsRefusedSinceItsReaderMayNeverCome) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/pipe");
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(CheckReport(path).message(), HasSubstr("pipe: is a pipe or a socket: "));
}

// The content fits into the stream's buffer: the disk says no when the file is closed.
TEST(ReportTest, AFullDiskIsAnErrorThatSaysSo) {
  const absl::Status status = WriteReport("/dev/full", Report());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("--report=/dev/full: cannot write: No space left on device: free space"));
}

TEST(ReportTest, WhatCannotBeWrittenIsSaidBeforeTheWorkAsAfterIt) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/no such folder");
  for (const std::string& path : {absl::StrCat(folder, "/r.json"), ::testing::TempDir()}) {
    for (const absl::Status& status : {CheckReport(path), WriteReport(path, Report())}) {
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(status.message(),
                  AllOf(HasSubstr(absl::StrCat("--report=", path)), HasSubstr("give a file")));
    }
  }
}

TEST(ReportTest, CheckingChangesNothing) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/not yet.json");
  std::filesystem::remove(path);
  EXPECT_TRUE(CheckReport(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReportTest, WhatIsLeftIsListedWithTheKeys) {
  Report report;
  report.groups_created = 1;
  EXPECT_THAT(report.Summary("train"),
              AllOf(HasSubstr("group train: created once"), HasSubstr("left: nothing")));
  report.left_keys = 2;
  EXPECT_THAT(report.Summary("train"), HasSubstr("left: 2 keys in the store"));
  report.left.fds = 3;
  EXPECT_THAT(report.Summary("train"), HasSubstr("left: 3 fds, 2 keys in the store"));
}

TEST(ReportTest, WhatOneRankCouldNotCountIsUnknownInTheReportOfAll) {
  TcpStoreServer::Options options;
  options.world_size = 2;
  const auto server = TcpStoreServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto merge = [&server](int rank, const Report& here) {
    World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = 2;
    world.store_address = (*server)->address();
    world.launcher = "test";
    GroupSpec spec;
    spec.name = "report";
    spec.backend = "reference";
    spec.setup_timeout = spec.operation_timeout = absl::Seconds(20) * TimeoutScale();
    return MergeReports(world, here, spec);
  };
  Report blind;
  blind.left.unknown = "cannot open /proc/self/fd: Too many open files";
  Report sees;
  sees.left.fds = 3;
  absl::StatusOr<Report> of_blind;
  std::thread rank_1([&] { of_blind = merge(1, blind); });
  const absl::StatusOr<Report> of_seeing = merge(0, sees);
  rank_1.join();
  ASSERT_TRUE(of_seeing.ok()) << of_seeing.status();
  ASSERT_TRUE(of_blind.ok()) << of_blind.status();
  EXPECT_FALSE(of_seeing->left.empty());
  EXPECT_THAT(of_seeing->Summary("train"),
              HasSubstr("left: unknown (rank 1 could not count what it holds)"));
  EXPECT_THAT(of_seeing->ToJson(),
              AllOf(HasSubstr("\"unknown\": \"rank 1 could not"), HasSubstr("\"fds\": 3")));
  // The rank itself knows why.
  EXPECT_THAT(of_blind->Summary("train"),
              HasSubstr("left: unknown (cannot open /proc/self/fd: Too many open files)"));
}

}  // namespace
}  // namespace muster
