#include "muster/core/launch/private_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/few_descriptors.h"

namespace muster {
namespace {

TEST(TemporaryFolderTest, IsWhereTheEnvironmentSaysElseTheSystems) {
  EXPECT_EQ(TemporaryFolder(Environment(Environment::Variables{{"TMPDIR", "/scratch/a"}})),
            "/scratch/a");
  EXPECT_EQ(TemporaryFolder(Environment(Environment::Variables{{"TMPDIR", ""}})), "/tmp");
  EXPECT_EQ(TemporaryFolder(Environment(Environment::Variables{})), "/tmp");
}

class PrivateFolderTest : public ::testing::Test {
 protected:
  PrivateFolderTest() : parent_(absl::StrCat(::testing::TempDir(), "/parent")) {
    std::filesystem::remove_all(parent_);
    std::filesystem::create_directories(parent_);
  }

  std::unique_ptr<PrivateFolder> Create() {
    absl::StatusOr<std::unique_ptr<PrivateFolder>> folder = PrivateFolder::Create(parent_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? *std::move(folder) : nullptr;
  }

  // Of a process that made it with a file inside, and was killed. Its path.
  std::string OfADeadProcess() {
    const std::string tells = absl::StrCat(parent_, "/path");
    const pid_t child = fork();
    if (child == 0) {
      const std::unique_ptr<PrivateFolder> folder = Create();
      if (folder == nullptr || !folder->WriteFile("token", "secret").ok()) _exit(1);
      std::ofstream(tells) << folder->path() << std::flush;
      raise(SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    std::string path;
    std::ifstream(tells) >> path;
    std::filesystem::remove(tells);
    EXPECT_TRUE(std::filesystem::exists(path + "/token"));
    return path;
  }

  const std::string parent_;
};

TEST_F(PrivateFolderTest, IsForThisUserAloneAndGoneAtTheEnd) {
  std::unique_ptr<PrivateFolder> folder = Create();
  ASSERT_NE(folder, nullptr);
  struct stat seen = {};
  ASSERT_EQ(stat(folder->path().c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 07777, 0700u);
  ASSERT_TRUE(folder->WriteFile("token", "secret").ok());
  EXPECT_FALSE(folder->WriteFile("token", "again").ok());
  folder.reset();
  EXPECT_TRUE(std::filesystem::is_empty(parent_));
}

TEST_F(PrivateFolderTest, ThatOfADeadProcessGoesWithTheNext) {
  const std::string left = OfADeadProcess();
  const std::unique_ptr<PrivateFolder> next = Create();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(PrivateFolderTest, ThatOfALivingProcessStays) {
  const std::unique_ptr<PrivateFolder> first = Create();
  const std::unique_ptr<PrivateFolder> second = Create();
  EXPECT_TRUE(std::filesystem::exists(first->path()));
  // From another process, too.
  const pid_t child = fork();
  if (child == 0) {
    Create().reset();
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(first->path()));
  EXPECT_TRUE(std::filesystem::exists(second->path()));
}

TEST_F(PrivateFolderTest, ThatOfADeadProcessGoesFromAFolderThatGivesItsGroupOn) {
  struct stat seen = {};
  ASSERT_EQ(chmod(parent_.c_str(), 02755), 0);
  ASSERT_EQ(stat(parent_.c_str(), &seen), 0);
  if ((seen.st_mode & 02000) == 0) GTEST_SKIP() << "the folder has a group that is not ours";
  const std::string left = OfADeadProcess();
  ASSERT_EQ(stat(left.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 07777, 02700u);
  Create().reset();
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(PrivateFolderTest, WithoutADescriptorNothingIsLeftAndTheLimitIsNamed) {
  {
    const FewDescriptors none(0);
    const absl::Status status = PrivateFolder::Create(parent_).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "Too many open files; `ulimit -n`")) << status;
  }
  EXPECT_TRUE(std::filesystem::is_empty(parent_));
}

TEST_F(PrivateFolderTest, OneThatHasTheLastDescriptorIsRemovedAllTheSame) {
  {
    const FewDescriptors one(1);
    const std::unique_ptr<PrivateFolder> folder = Create();
    ASSERT_NE(folder, nullptr);
    EXPECT_FALSE(folder->WriteFile("token", "secret").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(parent_));
}

TEST_F(PrivateFolderTest, AParentThatIsNotThereIsToldWithWhereToLook) {
  const absl::Status status = PrivateFolder::Create(parent_ + "/none").status();
  EXPECT_TRUE(absl::StrContains(status.message(), "No such file or directory; TMPDIR")) << status;
}

TEST_F(PrivateFolderTest, WhatIsNotOursStaysThoughItsNameIsLikeOurs) {
  // Somebody's own, without our lock.
  const std::string own = absl::StrCat(parent_, "/muster-abcdef");
  std::filesystem::create_directory(own);
  chmod(own.c_str(), 0700);
  std::ofstream(own + "/data") << "mine";
  // A link to one of ours whose owner is dead, elsewhere.
  const std::string dead = OfADeadProcess();
  const std::string elsewhere = absl::StrCat(parent_, "/elsewhere");
  std::filesystem::rename(dead, elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, dead);
  // One that others may enter.
  const std::string open = OfADeadProcess();
  chmod(open.c_str(), 0755);
  Create().reset();
  EXPECT_TRUE(std::filesystem::exists(own + "/data"));
  EXPECT_TRUE(std::filesystem::exists(elsewhere + "/token"));
  EXPECT_TRUE(std::filesystem::is_symlink(dead));
  EXPECT_TRUE(std::filesystem::exists(open + "/token"));
}

}  // namespace
}  // namespace muster
