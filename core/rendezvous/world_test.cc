#include "muster/core/rendezvous/world.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Variables = std::map<std::string, std::string, std::less<>>;

class WorldTest : public ::testing::Test {
 protected:
  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), 0600);
    return path;
  }

  Variables MusterRun() {
    return {{"MUSTER_RANK", "1"},
            {"MUSTER_WORLD_SIZE", "3"},
            {"MUSTER_LOCAL_RANK", "1"},
            {"MUSTER_LOCAL_WORLD_SIZE", "3"},
            {"MUSTER_STORE", "127.0.0.1:41231"},
            {"MUSTER_TOKEN_FILE", WriteFile("token", "s3cret\n")}};
  }

  static Variables Standard() {
    return {{"RANK", "0"},
            {"WORLD_SIZE", "2"},
            {"LOCAL_RANK", "0"},
            {"LOCAL_WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", "29500"}};
  }

  static absl::StatusOr<World> From(Variables variables) {
    return WorldFromEnvironment(Environment(std::move(variables)));
  }

  // `variables` with `name` set to `value`, or without it.
  static absl::Status With(Variables variables, const std::string& name,
                           std::optional<std::string> value) {
    if (value.has_value()) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
    return From(std::move(variables)).status();
  }
};

TEST_F(WorldTest, TheFileForTorchrunIsTheOneThatTheEnvironmentNamesWhoeverTheLauncherIs) {
  for (Variables variables : {MusterRun(), Standard(), Variables()}) {
    EXPECT_EQ(From(variables)->error_file, "");
    variables["TORCHELASTIC_ERROR_FILE"] = "/tmp/error.json";
    EXPECT_EQ(From(variables)->error_file, "/tmp/error.json");
    variables["TORCHELASTIC_ERROR_FILE"] = "";
    EXPECT_EQ(From(variables)->error_file, "");
  }
}

TEST_F(WorldTest, NoVariablesIsAWorldOfOne) {
  const absl::StatusOr<World> world =
      From({{"HOME", "/"}, {"LOCAL_RANK", "3"}, {"MASTER_ADDR", "a"}});
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->rank, 0);
  EXPECT_EQ(world->size, 1);
  EXPECT_EQ(world->local_size, 1);
  EXPECT_EQ(world->store_address, "");
  EXPECT_EQ(world->serve_address, "");
}

TEST_F(WorldTest, TakesTheVariablesOfMusterRun) {
  const absl::StatusOr<World> world = From(MusterRun());
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->rank, 1);
  EXPECT_EQ(world->size, 3);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 3);
  EXPECT_EQ(world->store_address, "127.0.0.1:41231");
  EXPECT_EQ(world->serve_address, "");
  EXPECT_EQ(world->token, "s3cret");
  EXPECT_EQ(world->launcher, "muster run");
}

TEST_F(WorldTest, MusterRunOverridesTheStandardVariables) {
  Variables variables = Standard();
  variables.merge(MusterRun());
  const absl::StatusOr<World> world = From(variables);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->rank, 1);
  EXPECT_EQ(world->launcher, "muster run");
}

TEST_F(WorldTest, MusterRunWithOneRankNeedsNoStore) {
  const absl::StatusOr<World> world = From({{"MUSTER_RANK", "0"},
                                            {"MUSTER_WORLD_SIZE", "1"},
                                            {"MUSTER_LOCAL_RANK", "0"},
                                            {"MUSTER_LOCAL_WORLD_SIZE", "1"}});
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->store_address, "");
}

TEST_F(WorldTest, EachVariableOfMusterRunIsNeeded) {
  for (const char* name : {"MUSTER_RANK", "MUSTER_WORLD_SIZE", "MUSTER_LOCAL_RANK",
                           "MUSTER_LOCAL_WORLD_SIZE", "MUSTER_STORE", "MUSTER_TOKEN_FILE"}) {
    const absl::Status status = With(MusterRun(), name, std::nullopt);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat(name, " is not set")), HasSubstr("expected")));
  }
}

TEST_F(WorldTest, RankZeroServesOnMasterPort) {
  const absl::StatusOr<World> world = From(Standard());
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->store_address, "127.0.0.1:29500");
  EXPECT_EQ(world->serve_address, "127.0.0.1:29500");
  EXPECT_EQ(world->launcher, "environment (RANK, WORLD_SIZE, ...)");
}

TEST_F(WorldTest, OtherRanksServeNothing) {
  Variables variables = Standard();
  variables["RANK"] = "1";
  variables["LOCAL_RANK"] = "1";
  const absl::StatusOr<World> world = From(variables);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->rank, 1);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->store_address, "127.0.0.1:29500");
  EXPECT_EQ(world->serve_address, "");
}

TEST_F(WorldTest, OneRankNeedsNoMaster) {
  const absl::StatusOr<World> world = From({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->size, 1);
  EXPECT_EQ(world->store_address, "");
}

TEST_F(WorldTest, LocalNumbersAreTheGlobalOnesOnLoopback) {
  for (const char* address : {"127.0.0.1", "localhost", "::1", "127.1.2.3"}) {
    const absl::StatusOr<World> world =
        From({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", address}, {"MASTER_PORT", "1"}});
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->local_rank, 1);
    EXPECT_EQ(world->local_size, 4);
  }
}

TEST_F(WorldTest, BracketsAnIpv6Address) {
  Variables variables = Standard();
  variables["MASTER_ADDR"] = "::1";
  const absl::StatusOr<World> world = From(variables);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->serve_address, "[::1]:29500");
}

TEST_F(WorldTest, SeveralHostsNeedLocalNumbersAndASecret) {
  Variables variables = Standard();
  variables["MASTER_ADDR"] = "node-3.cluster";
  absl::Status status = From(variables).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("node-3.cluster"), HasSubstr("MUSTER_TOKEN_FILE is not set")));

  variables["MUSTER_TOKEN_FILE"] = WriteFile("shared_token", "abc");
  const absl::StatusOr<World> world = From(variables);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->token, "abc");
  EXPECT_EQ(world->store_address, "node-3.cluster:29500");

  variables["WORLD_SIZE"] = "4";
  EXPECT_THAT(std::string(With(variables, "LOCAL_WORLD_SIZE", std::nullopt).message()),
              HasSubstr("LOCAL_WORLD_SIZE is not set"));
  EXPECT_THAT(std::string(With(variables, "LOCAL_RANK", std::nullopt).message()),
              HasSubstr("LOCAL_RANK is not set"));
}

TEST_F(WorldTest, EachStandardVariableIsNeeded) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const absl::Status status = With(Standard(), name, std::nullopt);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat(name, " is not set")), HasSubstr("expected")));
  }
}

TEST_F(WorldTest, BadNumbersNameTheVariableTheValueAndTheForm) {
  const std::vector<std::string> bad = {
      "",    " ",   "x",   "1x",  "x1",  "-1",  "+1", " 1",          "1 ",
      "1.0", "1e0", "0x1", "\t1", "1\n", "1,2", "４", "99999999999", "18446744073709551617"};
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"}) {
    for (const std::string& value : bad) {
      const absl::Status status = With(Standard(), name, value);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << "=" << value;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat(name, " is \"")), HasSubstr(": expected ")));
    }
  }
  for (const char* name :
       {"MUSTER_RANK", "MUSTER_WORLD_SIZE", "MUSTER_LOCAL_RANK", "MUSTER_LOCAL_WORLD_SIZE"}) {
    for (const std::string& value : bad) {
      const absl::Status status = With(MusterRun(), name, value);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << "=" << value;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat(name, " is \"")), HasSubstr(": expected ")));
    }
  }
}

// N jobs of one rank each would be made in silence.
TEST_F(WorldTest, OneOfSeveralProcessesOfALauncherThatIsNotReadIsNoJobOfItsOwn) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const absl::Status refused = From({{name, "2"}}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(absl::StrCat(name, " is \"2\" and RANK is not set")),
                      HasSubstr("RANK=0 WORLD_SIZE=1 makes each a job of its own")));
    EXPECT_TRUE(From({{name, "1"}}).ok());
    EXPECT_TRUE(From({{name, "2"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}).ok());
    Variables under_muster_run = MusterRun();
    under_muster_run[name] = "2";
    EXPECT_TRUE(From(under_muster_run).ok());
  }
  EXPECT_TRUE(From({{"SLURM_NTASKS", "2"}}).ok()) << "a batch script's own";
}

TEST_F(WorldTest, WhereOtherHostsMayHaveRanksTheNumberOfThoseOfThisOneIsAskedFor) {
  Variables far = Standard();
  far["MASTER_ADDR"] = "192.0.2.1";
  EXPECT_EQ(With(far, "LOCAL_WORLD_SIZE", std::nullopt).message(),
            "LOCAL_WORLD_SIZE is not set, though RANK is: expected the number of ranks on this "
            "host, from 1 to 2, since WORLD_SIZE is 2");
}

TEST_F(WorldTest, NumbersOutOfRangeSayTheRange) {
  EXPECT_EQ(With(Standard(), "RANK", "2").message(),
            "RANK is \"2\": expected a whole number from 0 to 1, since WORLD_SIZE is 2");
  EXPECT_EQ(
      With(Standard(), "LOCAL_RANK", "2").message(),
      "LOCAL_RANK is \"2\": expected a whole number from 0 to 1, since LOCAL_WORLD_SIZE is 2");
  EXPECT_EQ(With(Standard(), "WORLD_SIZE", "0").message(),
            "WORLD_SIZE is \"0\": expected the number of ranks, from 1 to 1048576");
  EXPECT_EQ(With(Standard(), "WORLD_SIZE", "1048577").message(),
            "WORLD_SIZE is \"1048577\": expected the number of ranks, from 1 to 1048576");
  EXPECT_EQ(With(Standard(), "LOCAL_WORLD_SIZE", "3").message(),
            "LOCAL_WORLD_SIZE is \"3\": expected the number of ranks on this host, from 1 to 2, "
            "since WORLD_SIZE is 2");
  EXPECT_EQ(
      With(Standard(), "MASTER_PORT", "0").message(),
      "MASTER_PORT is \"0\": expected a port from 1 to 65535 on which rank 0 serves the store");
  EXPECT_EQ(
      With(Standard(), "MASTER_PORT", "65536").message(),
      "MASTER_PORT is \"65536\": expected a port from 1 to 65535 on which rank 0 serves the store");
  EXPECT_EQ(
      With(MusterRun(), "MUSTER_RANK", "3").message(),
      "MUSTER_RANK is \"3\": expected a whole number from 0 to 2, since MUSTER_WORLD_SIZE is 3");
}

TEST_F(WorldTest, BadAddressesNameTheValue) {
  for (const char* value : {"", " ", "a b", "http://a", "a/b", "a\n", "a;b"}) {
    const absl::Status status = With(Standard(), "MASTER_ADDR", value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("MASTER_ADDR is \""));
  }
  for (const char* value : {"", "127.0.0.1", "127.0.0.1:", ":29500", "127.0.0.1:0", "127.0.0.1:x",
                            "127.0.0.1:65536", "::1:29500", "[::1]", "[::1:29500", "[a]:1", "a b:1",
                            "tcp://a:1", "unix:", "unix:store", "unix:/a\n"}) {
    const absl::Status status = With(MusterRun(), "MUSTER_STORE", value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("MUSTER_STORE is \""), HasSubstr("host:port")));
  }
  EXPECT_TRUE(With(MusterRun(), "MUSTER_STORE", "[::1]:29500").ok());
  EXPECT_TRUE(With(MusterRun(), "MUSTER_STORE", "unix:/tmp/muster-1/store").ok());
}

TEST_F(WorldTest, LongAndUnprintableValuesAreCutAndEscaped) {
  const absl::Status status = With(Standard(), "RANK", std::string(5000, '\x01'));
  EXPECT_LT(status.message().size(), 600u);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("\\x01"), HasSubstr("5000 bytes")));
}

TEST_F(WorldTest, BadTokenFilesSayWhatIsWrongAndNeverTheirContent) {
  std::vector<std::pair<std::string, std::string>> cases = {
      {::testing::TempDir() + "/missing", "cannot be opened (No such file"},
      {::testing::TempDir(), "not a regular file"},
      {"/dev/null", "not a regular file"},
      {"", "cannot be opened"},
      {WriteFile("empty", ""), "empty"},
      {WriteFile("line", "\n"), "empty"},
      {WriteFile("two", "hunter2\nhunter2\n"), "unprintable"},
      {WriteFile("space", "hunter2 "), "space"},
      {WriteFile("binary", std::string("hunter2\0x", 9)), "unprintable"},
      {WriteFile("long", std::string(4097, 'x')), "longer"},
  };
  for (const mode_t mode : {0640, 0604, 0620, 0610}) {
    cases.emplace_back(WriteFile(absl::StrCat("open", mode), "hunter2"),
                       absl::StrCat("which others may use (mode 0", absl::Hex(mode >> 6),
                                    absl::Hex((mode >> 3) & 7), absl::Hex(mode & 7), ";"));
    ASSERT_EQ(chmod(cases.back().first.c_str(), mode), 0);
  }
  for (const auto& [path, why] : cases) {
    const absl::Status status = With(MusterRun(), "MUSTER_TOKEN_FILE", path);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("MUSTER_TOKEN_FILE is \""),
                                                     HasSubstr(why), Not(HasSubstr("hunter2"))));
  }
  EXPECT_TRUE(
      With(MusterRun(), "MUSTER_TOKEN_FILE", WriteFile("longest", std::string(4096, 'x') + "\n"))
          .ok());
}

TEST_F(WorldTest, UnderTorchrunsAgentStoreItSaysWhatHoldsThePort) {
  for (const Variables& torchrun :
       {Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RUN_ID", "none"}},
        Variables{{"TORCHELASTIC_RUN_ID", "none"}}}) {
    Variables variables = Standard();
    variables.insert(torchrun.begin(), torchrun.end());
    const absl::Status status = From(variables).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("agent holds MASTER_PORT (29500)"), HasSubstr("muster run -n N")));
  }
}

TEST_F(WorldTest, TorchrunWithoutAgentStoreLeavesThePortToRankZero) {
  Variables variables = Standard();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const absl::StatusOr<World> world = From(variables);
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ(world->serve_address, "127.0.0.1:29500");
}

TEST_F(WorldTest, MusterRunInsideTorchrunIsFine) {
  Variables variables = MusterRun();
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_TRUE(From(variables).ok());
}

TEST_F(WorldTest, ValidateNamesTheFieldAndTheValue) {
  World good;
  good.rank = 0;
  good.size = good.local_size = 2;
  good.store_address = good.serve_address = "127.0.0.1:1";
  good.token = "t";
  ASSERT_TRUE(good.Validate().ok()) << good.Validate();
  ASSERT_TRUE(World().Validate().ok());

  const auto message = [&](auto change) {
    World world = good;
    change(world);
    return std::string(world.Validate().message());
  };
  EXPECT_EQ(message([](World& w) { w.size = 0; }), "world: size is 0: expected 1 to 1048576");
  EXPECT_EQ(message([](World& w) { w.rank = 2; }),
            "world: rank is 2: expected 0 to 1, since size is 2");
  EXPECT_EQ(message([](World& w) { w.rank = -1; }),
            "world: rank is -1: expected 0 to 1, since size is 2");
  EXPECT_EQ(message([](World& w) { w.local_size = 3; }),
            "world: local_size is 3: expected 1 to 2, since size is 2");
  EXPECT_EQ(message([](World& w) { w.local_size = 0; }),
            "world: local_size is 0: expected 1 to 2, since size is 2");
  EXPECT_EQ(message([](World& w) { w.local_rank = 2; }),
            "world: local_rank is 2: expected 0 to 1, since local_size is 2");
  EXPECT_THAT(message([](World& w) { w.store_address = ""; }),
              HasSubstr("world: store_address is \"\""));
  EXPECT_THAT(message([](World& w) { w.serve_address = "x"; }),
              HasSubstr("world: serve_address is \"x\""));
  EXPECT_THAT(message([](World& w) { w.serve_address = "unix:/store"; }),
              HasSubstr("world: serve_address is \"unix:/store\""));
  EXPECT_EQ(
      message([](World& w) {
        w.local_size = 1;
        w.store_address = "unix:/tmp/store";
      }),
      "world: store_address is \"unix:/tmp/store\": expected host:port, such as "
      "127.0.0.1:41231, since other hosts have 1 of the ranks and do not reach a unix socket");
  EXPECT_EQ(message([](World& w) { w.store_address = "unix:/tmp/store"; }), "");
  EXPECT_THAT(message([](World& w) { w.rank = 1; }), HasSubstr("only rank 0 serves"));
  EXPECT_THAT(message([](World& w) { w.size = w.local_size = 1; }), HasSubstr("since size is 1"));
  EXPECT_THAT(message([](World& w) { w.token = "a b"; }), HasSubstr("token holds a space"));
}

}  // namespace
}  // namespace muster
