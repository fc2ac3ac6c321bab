// The messages that a user meets are in docs/troubleshooting.md: those that one process can bring
// about are made here and looked up there.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/launcher.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/platform/environment.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/tcp_store_server.h"
#include "muster/trainer/data.h"
#include "muster/trainer/metrics.h"
#include "muster/trainer/module.h"
#include "muster/trainer/trainer.h"

namespace muster {
namespace {

constexpr absl::string_view kAnything = "…";

// A message with its parts that are always the same.
struct Pattern {
  std::vector<std::string> parts;

  bool Fits(absl::string_view message) const {
    if (!absl::StartsWith(message, parts.front())) return false;
    size_t at = parts.front().size();
    for (size_t i = 1; i < parts.size(); ++i) {
      at = message.find(parts[i], at);
      if (at == absl::string_view::npos) return false;
      at += parts[i].size();
    }
    return parts.back().empty() || absl::EndsWith(message, parts.back());
  }

  // What is common to all of them says nothing.
  bool SaysSomething() const {
    size_t letters = 0;
    for (const std::string& part : parts) letters += part.size();
    return letters >= 12;
  }
};

std::vector<Pattern> DocumentedMessages() {
  std::ifstream in("docs/troubleshooting.md");
  EXPECT_TRUE(in);
  std::vector<Pattern> patterns;
  for (std::string line; std::getline(in, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::string message = line.substr(3, line.find("` |") - 3);
    patterns.push_back({absl::StrSplit(message, kAnything)});
  }
  return patterns;
}

class TroubleshootingTest : public ::testing::Test {
 protected:
  void ExpectDocumented(const absl::Status& status) {
    ASSERT_FALSE(status.ok());
    for (const Pattern& pattern : patterns_) {
      if (pattern.SaysSomething() && pattern.Fits(status.message())) return;
    }
    ADD_FAILURE() << "docs/troubleshooting.md does not explain: " << status.message();
  }

  absl::Status FromVariables(Environment::Variables variables) {
    return WorldFromEnvironment(Environment(std::move(variables))).status();
  }

 private:
  const std::vector<Pattern> patterns_ = DocumentedMessages();
};

TEST_F(TroubleshootingTest, Joining) {
  ExpectDocumented(FromVariables({{"RANK", "x"}, {"WORLD_SIZE", "2"}}));
  ExpectDocumented(FromVariables({{"RANK", "1"}}));
  ExpectDocumented(FromVariables({{"RANK", "0"},
                                  {"WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "10.0.0.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"LOCAL_RANK", "0"},
                                  {"LOCAL_WORLD_SIZE", "1"}}));
  ExpectDocumented(FromVariables({{"RANK", "0"},
                                  {"WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", "29500"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
  ExpectDocumented(FromVariables({{"MUSTER_RANK", "0"},
                                  {"MUSTER_WORLD_SIZE", "2"},
                                  {"MUSTER_LOCAL_RANK", "0"},
                                  {"MUSTER_LOCAL_WORLD_SIZE", "2"},
                                  {"MUSTER_STORE", "127.0.0.1:1"},
                                  {"MUSTER_TOKEN_FILE", "/nonexistent"}}));
  World world;
  world.size = 0;
  ExpectDocumented(world.Validate());
}

TEST_F(TroubleshootingTest, AStoreThatIsNotThere) {
  World world;
  world.size = 2;
  world.rank = 1;
  world.local_size = 2;
  world.local_rank = 1;
  world.store_address = "127.0.0.1:1";
  world.token = "token";
  PoolOptions options;
  options.connect_timeout = absl::Milliseconds(100);
  ExpectDocumented(GroupPool::Create(world, options).status());
}

TEST_F(TroubleshootingTest, ShuttingDownOnSignals) {
  ShutdownOptions none;
  none.close_timeout = absl::ZeroDuration();
  ExpectDocumented(ShutdownOnSignals::Create(none).status());
  const absl::StatusOr<std::unique_ptr<ShutdownOnSignals>> one = ShutdownOnSignals::Create();
  ASSERT_TRUE(one.ok()) << one.status();
  ExpectDocumented(ShutdownOnSignals::Create().status());
}

// Neither the job's folder nor another one has a place for a socket.
TEST_F(TroubleshootingTest, AStoreOnTcp) {
  ServeStoreOptions options;
  options.short_folder = "/nonexistent";
  LaunchedStoreRequest request;
  request.token = "token";
  const absl::StatusOr<std::unique_ptr<LaunchedStore>> store = ServeUnixStore(options)(request);
  ASSERT_TRUE(store.ok()) << store.status();
  ExpectDocumented(absl::UnavailableError((*store)->Notice()));
}

TEST_F(TroubleshootingTest, AStoreThatIsNotServed) {
  TcpStoreServer::Options options;
  options.max_strangers = 0;
  ExpectDocumented(TcpStoreServer::Start(options).status());
  options.max_strangers.reset();
  for (const char* address : {"nowhere", "unix:store", "0.0.0.0:0", "unix:/no/such/folder/store"}) {
    options.address = address;
    ExpectDocumented(TcpStoreServer::Start(options).status());
  }
}

// The first of these comes after two seconds, in which the right store might have come.
TEST_F(TroubleshootingTest, AStoreThatIsAnothers) {
  TcpStoreServer::Options options;
  options.world_size = 2;
  options.token = "another";
  const absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  World world;
  world.size = world.local_size = 2;
  world.rank = world.local_rank = 1;
  world.store_address = (*server)->address();
  world.token = "token";
  ExpectDocumented(GroupPool::Create(world).status());
  world.token = "another";
  const absl::StatusOr<std::unique_ptr<GroupPool>> first = GroupPool::Create(world);
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectDocumented(GroupPool::Create(world).status());
}

TEST_F(TroubleshootingTest, AcquiringAndClosing) {
  const absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(World());
  ASSERT_TRUE(pool.ok()) << pool.status();
  GroupSpec spec;
  spec.name = "a group";
  ExpectDocumented((*pool)->Acquire(spec).status());
  spec.name = "train";
  spec.setup_timeout = absl::ZeroDuration();
  ExpectDocumented((*pool)->Acquire(spec).status());
  spec.setup_timeout = absl::Seconds(30);
  spec.backend = "telegraph";
  ExpectDocumented((*pool)->Acquire(spec).status());
  spec.backend = "reference";
  spec.backend_options = {{"speed", "high"}};
  ExpectDocumented((*pool)->Acquire(spec).status());
  spec.backend_options.clear();
  spec.device = Device::Cuda(0);
  ExpectDocumented((*pool)->Acquire(spec).status());
  spec.device = Device::Cpu();

  absl::StatusOr<GroupLease> group = (*pool)->Acquire(spec);
  ASSERT_TRUE(group.ok()) << group.status();
  GroupSpec other = spec;
  other.backend = "auto";
  ExpectDocumented((*pool)->Acquire(other).status());
  absl::StatusOr<GroupLease> second = (*pool)->Acquire(spec);
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectDocumented(group->Close());
  ExpectDocumented((*pool)->Close(absl::Seconds(5)));

  std::vector<int32_t> values(4);
  const Buffer buffer = Buffer::Of(absl::MakeSpan(values));
  ExpectDocumented((*group)->AllReduce(buffer, ReduceOp::kAverage));
  ExpectDocumented((*group)->Broadcast(buffer, 1));
  second->Release();
  ExpectDocumented((*second)->Barrier());
  ASSERT_TRUE(group->Close().ok());
  ExpectDocumented((*group)->Barrier());
  group->Release();
  ASSERT_TRUE((*pool)->Close(absl::Seconds(5)).ok());
  ExpectDocumented((*pool)->Acquire(spec).status());
}

TEST_F(TroubleshootingTest, Operations) {
  const absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(World());
  ASSERT_TRUE(pool.ok()) << pool.status();
  const absl::StatusOr<GroupLease> lease = (*pool)->Acquire(GroupSpec());
  ASSERT_TRUE(lease.ok()) << lease.status();
  Group& group = **lease;
  std::vector<float> values(8);
  const Buffer all = Buffer::Of(absl::MakeSpan(values));
  ExpectDocumented(group.AllReduce(all.Slice(0, 4), all.Slice(1, 4), ReduceOp::kSum));
  ExpectDocumented(group.AllReduce(all.Slice(0, 4), all.Slice(4, 3), ReduceOp::kSum));
  ExpectDocumented(group.AllGather(all.Slice(0, 4), all.Slice(4, 3)));
  ExpectDocumented(group.Send(all, 0));
  ExpectDocumented(group.Send(all, 1));
  Buffer nowhere = all;
  nowhere.data = nullptr;
  ExpectDocumented(group.AllReduce(nowhere, ReduceOp::kSum));
  Buffer crooked = all.Slice(0, 4);
  crooked.data = reinterpret_cast<char*>(crooked.data) + 1;
  ExpectDocumented(group.AllReduce(crooked, ReduceOp::kSum));
  Buffer elsewhere = all;
  elsewhere.device = Device::Cuda(0);
  ExpectDocumented(group.AllReduce(elsewhere, ReduceOp::kSum));
  EXPECT_TRUE(group.status().ok());
}

class NoData : public Dataset {
 public:
  int64_t size() const override { return 0; }
  std::vector<Field> fields() const override { return {}; }
  absl::Status Read(absl::Span<const int64_t>, Batch&) override { return absl::OkStatus(); }
};

class NoModule : public Module {
 public:
  absl::Span<const Parameter> parameters() const override { return {}; }
  absl::Status TrainStep(const Batch&, GradientReady, MetricSums&) override {
    return absl::OkStatus();
  }
  absl::Status EvaluateStep(const Batch&, MetricSums&) override { return absl::OkStatus(); }
};

TEST_F(TroubleshootingTest, Training) {
  NoModule module;
  NoData data;
  TrainerOptions options;
  options.world = World();
  Trainer trainer(options);
  ExpectDocumented(trainer.Fit(module, data));
  ExpectDocumented(trainer.Test(module, data));
  ASSERT_TRUE(trainer.Close().ok());
  ExpectDocumented(trainer.Fit(module, data));
  options.sgd.learning_rate = -1;
  Trainer wrong(options);
  ExpectDocumented(wrong.Fit(module, data));
  Trainer borrows(options, GroupLease());
  ExpectDocumented(borrows.Fit(module, data));
}

TEST_F(TroubleshootingTest, Launching) {
  JobOptions job;
  job.command = {"/nonexistent/program"};
  ExpectDocumented(RunJob(job).status());
  job.command = {"docs/troubleshooting.md"};
  ExpectDocumented(RunJob(job).status());
}

}  // namespace
}  // namespace muster
