// L10: what lies around the library is nobody's to change: the environment, the working directory,
// the umask, what each signal does and which are blocked.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/group.h"
#include "muster/testing/multi_rank_test.h"
#include "muster/trainer/logistic_module.h"
#include "muster/trainer/trainer.h"

extern char** environ;

namespace muster {
namespace {

std::string SignalsIn(const sigset_t& set) {
  std::vector<int> signals;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&set, signal) == 1) signals.push_back(signal);
  }
  return absl::StrJoin(signals, " ");
}

// What is found where, by name: so that a difference names itself.
std::map<std::string, std::string> Surroundings() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    found[absl::StrCat("variable ", text.substr(0, text.find('=')))] = text;
  }
  found["working directory"] = std::filesystem::current_path().string();
  std::ifstream status("/proc/self/status");  // asking umask() would change it
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "Umask:")) found["umask"] = line;
  }
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    const auto handler = (action.sa_flags & SA_SIGINFO) != 0
                             ? reinterpret_cast<uintptr_t>(action.sa_sigaction)
                             : reinterpret_cast<uintptr_t>(action.sa_handler);
    found[absl::StrCat("action of signal ", signal)] = absl::StrCat(
        "handler ", handler, ", flags ", action.sa_flags, ", blocks ", SignalsIn(action.sa_mask));
  }
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  found["blocked signals"] = SignalsIn(blocked);
  return found;
}

class UntouchedTest : public testing::MultiRankTest {
 protected:
  // The test's own process: `life` begins and ends in it.
  void ExpectUntouchedBy(const std::function<void(GroupPool&, const GroupSpec&)>& life) {
    const std::map<std::string, std::string> before = Surroundings();
    ASSERT_EQ(before.count("umask"), 1u) << "/proc/self/status names none";
    {
      ASSERT_OK_AND_ASSIGN(std::unique_ptr<GroupPool> mine,
                           GroupPool::FromEnvironment(pool_options()));
      GroupSpec group = spec();
      group.name = "life";
      life(*mine, group);
      EXPECT_EQ(Surroundings(), before) << "while the pool is there";
    }
    EXPECT_EQ(Surroundings(), before);
  }
};

TEST_F(UntouchedTest, TheWholeLifeOfAGroupChangesNothingAroundIt) {
  ExpectUntouchedBy([this](GroupPool& pool, const GroupSpec& group) {
    ASSERT_OK_AND_ASSIGN(GroupLease lease, pool.Acquire(group));
    float value = 1;
    ASSERT_OK(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum));
    EXPECT_EQ(value, world_size());
    {
      TrainerOptions options;
      options.batch_size = 8;
      options.group = group;
      LogisticModule module(4);
      PlaneData data(64, 4);
      Trainer trainer(options, pool);
      ASSERT_OK(trainer.Fit(module, data, data));
      ASSERT_OK(trainer.Test(module, data));
    }
    ASSERT_OK(lease.Close());
    ASSERT_OK(pool.Close(group.close_timeout));
  });
}

TEST_F(UntouchedTest, AnAbortedGroupChangesNothingEither) {
  ExpectUntouchedBy([this](GroupPool& pool, const GroupSpec& group) {
    ASSERT_OK_AND_ASSIGN(GroupLease lease, pool.Acquire(group));
    if (rank() == 0) {
      lease.Abort(absl::CancelledError("enough"));
    } else {
      float value = 1;
      EXPECT_FALSE(lease->AllReduce(Buffer::Of(value), ReduceOp::kSum).ok());
    }
  });
}

// The two above would see a change of any kind.
TEST_F(UntouchedTest, EveryChangeWouldBeSeen) {
  const auto expect_seen = [](const std::string& name, const std::function<void()>& change) {
    const std::map<std::string, std::string> before = Surroundings();
    change();
    std::set<std::string> changed;
    for (const auto& [key, value] : Surroundings()) {
      const auto was = before.find(key);
      if (was == before.end() || was->second != value) changed.insert(key);
    }
    EXPECT_THAT(changed, ::testing::ElementsAre(name));
  };

  expect_seen("variable MUSTER_UNTOUCHED", [] { setenv("MUSTER_UNTOUCHED", "1", 1); });
  unsetenv("MUSTER_UNTOUCHED");

  const std::string folder = std::filesystem::current_path().string();
  expect_seen("working directory", [] { ASSERT_EQ(chdir("/"), 0); });
  ASSERT_EQ(chdir(folder.c_str()), 0);

  const mode_t mask = umask(0);
  umask(mask);
  expect_seen("umask", [mask] { umask(mask ^ 01); });
  umask(mask);

  struct sigaction was = {};
  expect_seen(absl::StrCat("action of signal ", SIGPIPE), [&was] {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &was);
  });
  sigaction(SIGPIPE, &was, nullptr);

  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  expect_seen("blocked signals", [&usr2] { pthread_sigmask(SIG_BLOCK, &usr2, nullptr); });
  pthread_sigmask(SIG_UNBLOCK, &usr2, nullptr);
}

}  // namespace
}  // namespace muster
