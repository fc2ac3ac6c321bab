// What a user can get wrong: each ends at once, on every rank, not with 0, and says what was seen
// and what to do.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>  // NOLINT(build/c++11): somebody else's server
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/trainer/examples/example_job.h"
#include "muster/trainer/examples/idx_writer.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// "At once": without waiting for any timeout. Those of the jobs here are far beyond it.
absl::Duration AtOnce() { return TimeoutScale() * absl::Seconds(20); }
constexpr char kLongSetup[] = "--setup_timeout=10m";

// A port of the loopback interface that somebody else listens on. It says something that is not
// ours to whoever connects.
class StrangePort {
 public:
  StrangePort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd_, 16) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
  }
  ~StrangePort() {
    done_ = true;
    if (server_.joinable()) server_.join();
    close(fd_);
  }

  void Serve() {
    server_ = std::thread([this] {
      constexpr char kGreeting[] = "SSH-2.0-OpenSSH_9.2\r\n";
      while (!done_) {
        pollfd ready = {fd_, POLLIN, 0};
        if (poll(&ready, 1, 10) <= 0) continue;
        const int client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) continue;
        send(client, kGreeting, sizeof(kGreeting) - 1, MSG_NOSIGNAL);
        // Let it read before the connection ends: bytes of its own that nobody took would reset it.
        shutdown(client, SHUT_WR);
        char byte;
        while (recv(client, &byte, 1, 0) > 0) {
        }
        close(client);
      }
    });
  }

  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
  std::atomic<bool> done_{false};
  std::thread server_;
};

// One that was free a moment ago, on the loopback interface that this test has for itself.
int FreePort() { return StrangePort().port(); }

class BadInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    mkdir(GoodData().c_str(), 0755);
    WriteImageFiles(GoodData(), 240, 40);
  }
  // With spaces, as folders of users have them.
  static std::string GoodData() { return absl::StrCat(::testing::TempDir(), "/good data"); }

  static std::string Example() { return ProgramFile("trainer/examples/fashion_mnist"); }
  static std::string Muster() { return ProgramFile("tools/muster/muster"); }

  std::unique_ptr<ExampleJob> Start(std::vector<std::string> command,
                                    const ExampleJob::Variables& variables = {}) {
    return std::make_unique<ExampleJob>(place_, std::move(command), variables);
  }

  // A rank that nobody launched but the user. The last of equal flags counts.
  std::unique_ptr<ExampleJob> StartByHand(const std::string& rank, const std::string& world_size,
                                          int port, std::vector<std::string> more = {kLongSetup}) {
    std::vector<std::string> command = {Example(), absl::StrCat("--data=", GoodData()),
                                        "--epochs=1", "--backend=reference"};
    command.insert(command.end(), more.begin(), more.end());
    return Start(std::move(command), {{"RANK", rank},
                                      {"WORLD_SIZE", world_size},
                                      {"MASTER_ADDR", "127.0.0.1"},
                                      {"MASTER_PORT", absl::StrCat(port)}});
  }

  // It ends at once, not with 0, and says all of `parts` on one line.
  void ExpectFails(ExampleJob& job, const std::vector<std::string>& parts) {
    const std::optional<int> code = job.WaitForEnd(AtOnce());
    ASSERT_TRUE(code.has_value()) << "it goes on" << job.Transcript();
    EXPECT_NE(*code, 0) << job.Transcript();
    EXPECT_TRUE(job.WaitForLine(parts, absl::ZeroDuration()).has_value())
        << "no line with \"" << absl::StrJoin(parts, "\" and \"") << "\"" << job.Transcript();
  }

  void ExpectNothingLeft() { EXPECT_THAT(place_.Left(), IsEmpty()); }

  JobPlace place_;
};

// --- Who is who, by hand

TEST_F(BadInputTest, AnotherWorldSizeOnOneRankEndsBothWithBothSizes) {
  for (const auto& [server, other] : {std::pair<std::string, std::string>{"2", "3"}, {"3", "2"}}) {
    SCOPED_TRACE(absl::StrCat("rank 0 says ", server));
    const int port = FreePort();
    const auto rank0 = StartByHand("0", server, port);
    const auto rank1 = StartByHand("1", other, port);
    const std::vector<std::string> said = {
        absl::StrCat("was started for a world of ", other, " ranks, the store serves one of ",
                     server, ": start every rank with the same world size"),
        "rank 1 (host "};
    ExpectFails(*rank1, said);
    ExpectFails(*rank0, said);
    ExpectNothingLeft();
  }
}

TEST_F(BadInputTest, TwoRanksWithOneNumberEndEveryRankAndBothAreNamed) {
  const int port = FreePort();
  const auto rank0 = StartByHand("0", "3", port);
  const auto rank1 = StartByHand("1", "3", port);
  const auto again = StartByHand("1", "3", port);
  // Which of the two came first is not known.
  ExpectFails(*rank0, {"rank 2 was lost: it never came, and rank 1 came twice: host ",
                       absl::StrCat("pid ", rank1->pid()), absl::StrCat("pid ", again->pid()),
                       "start each rank once"});
  ExpectFails(*rank1, {"start each rank once"});
  ExpectFails(*again, {"start each rank once"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, ASecondRankZeroIsToldOfThePortAndTheFirstOneWhoIsMissing) {
  const int port = FreePort();
  const std::vector<std::string> soon = {"--setup_timeout=3s"};
  const auto one = StartByHand("0", "2", port, soon);
  const auto two = StartByHand("0", "2", port, soon);
  ASSERT_TRUE(one->WaitForEnd(AtOnce()).has_value()) << one->Transcript();
  ASSERT_TRUE(two->WaitForEnd(AtOnce()).has_value()) << two->Transcript();
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const bool one_serves = one->WaitForLine({address}, absl::ZeroDuration()) == std::nullopt;
  ExpectFails(one_serves ? *two : *one, {"rank 0", address});
  ExpectFails(one_serves ? *one : *two, {"fashion_mnist, rank 0: ", "rank 1"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, APortThatIsTakenEndsEveryRankWithItsAddress) {
  StrangePort port;
  port.Serve();
  const auto rank0 = StartByHand("0", "2", port.port());
  const auto rank1 = StartByHand("1", "2", port.port());
  const std::string address = absl::StrCat("127.0.0.1:", port.port());
  ExpectFails(*rank0, {"rank 0", address, "another process listens there: stop it"});
  ExpectFails(*rank1, {"rank 1", address, "is not a muster store", "is the address right?"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, APortWhoseOwnerSaysNothingEndsEveryRankWithinTheSetUpTimeout) {
  StrangePort port;
  const std::vector<std::string> soon = {"--setup_timeout=1s"};
  const auto rank0 = StartByHand("0", "2", port.port(), soon);
  const auto rank1 = StartByHand("1", "2", port.port(), soon);
  const std::string address = absl::StrCat("127.0.0.1:", port.port());
  ExpectFails(*rank0, {"rank 0", address, "another process listens there: stop it"});
  ExpectFails(*rank1, {"rank 1", address, "said nothing"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, AVariableThatMakesNoSenseIsNamedWithItsValueAndTheFormExpected) {
  struct Case {
    ExampleJob::Variables variables;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK is \"2\"", "from 0 to 1"}},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK is \"-1\"", "from 0 to 1"}},
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {"RANK is \"one\"", "from 0 to 1"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE is \"0\"", "from 1"}},
      {{{"RANK", "0"}}, {"WORLD_SIZE is not set", "expected"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "99999"}},
       {"MASTER_PORT is \"99999\"", "from 1 to 65535"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}},
       {"MASTER_ADDR is not set", "expected"}},
      {{{"MUSTER_FAULTS", "nowhere=fail"}}, {"MUSTER_FAULTS", "nowhere"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.said[0]);
    const auto job =
        Start({Example(), absl::StrCat("--data=", GoodData()), "--ranks=1"}, one.variables);
    ExpectFails(*job, one.said);
  }
  ExpectNothingLeft();
}

// --- Flags

TEST_F(BadInputTest, ANumberThatMakesNoSenseIsNamedWithItsValueAndWhatIsAccepted) {
  const std::vector<std::string> flags = {"--ranks=0",         "--ranks=-1",
                                          "--ranks=two",       "--epochs=0",
                                          "--epochs=x",        "--epochs=",
                                          "--setup_timeout=0", "--heartbeat_timeout=soon",
                                          "--batch_size=0",    "--lr=-1",
                                          "--lr=nan",          "--momentum=1",
                                          "--momentum=-0.1",   "--group_lifetime=ever"};
  for (const std::string& flag : flags) {
    SCOPED_TRACE(flag);
    const std::string name = flag.substr(2, flag.find('=') - 2);
    const std::string value = flag.substr(flag.find('=') + 1);
    const auto job = Start({Example(), absl::StrCat("--data=", GoodData()), flag});
    ExpectFails(*job, {absl::StrCat("'", value, "'"), name, "; give "});
    EXPECT_THAT(job->Output(), Not(HasSubstr("fit 1/"))) << "training began";
  }
  const auto none = Start({Muster(), "run", "-n", "0", "--", Example()});
  ExpectFails(*none, {"-n is \"0\"", "from 1 to"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, AnotherNumberOfRanksThanTheLaunchersIsRefused) {
  const auto job = Start({Muster(), "run", "-n", "2", "--", Example(),
                          absl::StrCat("--data=", GoodData()), "--ranks=3"});
  ExpectFails(*job, {"--ranks is 3", "a launcher started 2 ranks"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, WhatIsNoFlagIsNamed) {
  const std::string data = absl::StrCat("--data=", GoodData());
  const auto unknown = Start({Example(), data, "--rank=2"});
  ExpectFails(*unknown, {"Unknown command line flag 'rank'"});
  const auto extra = Start({Example(), data, "extra"});
  ExpectFails(*extra, {"'extra' is no flag", "--help"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, AReportThatCannotBeWrittenIsSaidBeforeTraining) {
  const auto job =
      Start({Example(), absl::StrCat("--data=", GoodData()), "--report=/nonexistent/report.json"});
  ExpectFails(*job, {"--report=/nonexistent/report.json", "give a file"});
  EXPECT_THAT(job->Output(), Not(HasSubstr("fit 1/"))) << "training began";
  ExpectNothingLeft();
}

TEST_F(BadInputTest, ABackendThatIsNotLinkedInIsRefusedOnEveryRankWithThoseThatAre) {
  const std::vector<std::string> example = {Example(), absl::StrCat("--data=", GoodData()),
                                            "--backend=carrier-pigeon"};
  const auto self = Start(example);
  ExpectFails(*self, {"--backend=carrier-pigeon", "linked in", "reference"});
  std::vector<std::string> command = {Muster(), "run", "-n", "2", "--"};
  command.insert(command.end(), example.begin(), example.end());
  const auto launched = Start(command);
  for (const char* rank : {"[0]", "[1]"}) {
    ExpectFails(*launched, {rank, "--backend=carrier-pigeon", "linked in", "reference"});
  }
  ExpectNothingLeft();
}

// --- Data

TEST_F(BadInputTest, DamagedDataEndsEveryRankWithTheFileAndTheDamage) {
  const std::string sound = Gzip(IdxBytes({40}, std::vector<uint8_t>(40, 1)));
  std::string flipped = sound;
  flipped[sound.size() / 2] ^= 0x10;
  struct Case {
    std::string content;
    std::string said;
  };
  const std::vector<Case> cases = {
      {sound.substr(0, sound.size() / 2), ": fetch the file again"},
      {flipped, ": fetch the file again"},
      {"", ": fetch the file again"},
      {"<html>404</html>", "not a sound gzip file"},
      {Gzip("not an idx file"), "starts with"},
      {sound + "more", "bytes after its gzip data"},
      {Gzip(IdxBytes({39}, std::vector<uint8_t>(39, 1))), "has 39 labels for the 40 images"},
      {Gzip(IdxBytes({40}, std::vector<uint8_t>(40, 77))), "label 77 of image 0 is out of range"},
  };
  const std::string folder = absl::StrCat(::testing::TempDir(), "/bad data");
  mkdir(folder.c_str(), 0755);
  WriteImageFiles(folder, 240, 40);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.said);
    WriteFile(absl::StrCat(folder, "/t10k-labels-idx1-ubyte.gz"), one.content);
    const auto job = Start({Example(), absl::StrCat("--data=", folder), kLongSetup});
    for (const char* rank : {"[0] fashion_mnist, rank 0: ", "[1] fashion_mnist, rank 1: "}) {
      ExpectFails(*job, {rank, absl::StrCat(folder, "/t10k-labels-idx1-ubyte.gz"), one.said});
    }
  }
  unlink(absl::StrCat(folder, "/t10k-labels-idx1-ubyte.gz").c_str());
  const auto missing = Start({Example(), absl::StrCat("--data=", folder)});
  ExpectFails(*missing, {folder, "cannot read t10k-labels-idx1-ubyte.gz", "give the folder"});
  ExpectNothingLeft();
}

TEST_F(BadInputTest, DataThatOneRankLacksEndsTheOthersToo) {
  const std::string script =
      "test $RANK = 0 || set -- \"$1\" /nonexistent; "
      "exec \"$1\" --data=\"$2\" --setup_timeout=10m";
  const auto job = Start(
      {Muster(), "run", "-n", "2", "--", "/bin/sh", "-c", script, "sh", Example(), GoodData()});
  ExpectFails(*job, {"[1] ", "--data=/nonexistent", "cannot read"});
  ExpectFails(*job, {"[0] ", "rank 1 left: \"--data=/nonexistent: cannot read"});
  ExpectNothingLeft();
}

// Nobody reaps these ranks but the user: the others learn it from the one that cannot go on, the
// store's host or not.
TEST_F(BadInputTest, WhatOneRankStartedByHandLacksEndsTheOthersAtOnceWithTheReason) {
  const std::string broken = absl::StrCat(::testing::TempDir(), "/broken data");
  mkdir(broken.c_str(), 0755);
  WriteImageFiles(broken, 240, 40);
  WriteFile(absl::StrCat(broken, "/t10k-labels-idx1-ubyte.gz"), "<html>404</html>");
  struct Case {
    std::string flag;
    std::string said;
  };
  const std::vector<Case> cases = {
      {"--data=/nonexistent", "--data=/nonexistent: cannot read train-images"},
      {absl::StrCat("--data=", broken), "t10k-labels-idx1-ubyte.gz: not a sound gzip file"},
      {"--report=/nonexistent/r.json", "--report=/nonexistent/r.json"},
      {"--backend=carrier-pigeon", "carrier-pigeon"},
  };
  for (const Case& one : cases) {
    for (const int lacking : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(one.flag, " on rank ", lacking));
      const int port = FreePort();
      std::vector<std::unique_ptr<ExampleJob>> ranks;
      for (const int rank : {0, 1, 2}) {
        std::vector<std::string> more = {kLongSetup};
        if (rank == lacking) more.push_back(one.flag);
        ranks.push_back(StartByHand(absl::StrCat(rank), "3", port, more));
      }
      for (const int rank : {0, 1, 2}) {
        ExpectFails(*ranks[rank], {absl::StrCat("fashion_mnist, rank ", rank, ": "), one.said,
                                   rank == lacking ? "" : absl::StrCat("rank ", lacking)});
      }
      ExpectNothingLeft();
    }
  }
}

// --- Programs

TEST_F(BadInputTest, AProgramThatIsNotThereOrCannotBeRunIsOneLineAndAShellsCode) {
  const std::string missing = absl::StrCat(::testing::TempDir(), "/no such program");
  const auto not_found = Start({Muster(), "run", "-n", "2", "--", missing});
  ExpectFails(*not_found, {"muster run: ", missing});
  EXPECT_EQ(not_found->WaitForEnd(absl::ZeroDuration()), 127);

  const std::string plain = absl::StrCat(::testing::TempDir(), "/plain file");
  WriteFile(plain, "no program");
  ASSERT_EQ(chmod(plain.c_str(), 0644), 0);
  const auto not_executable = Start({Muster(), "run", "-n", "2", "--", plain});
  ExpectFails(*not_executable, {"muster run: ", plain, "is not executable: chmod +x"});
  EXPECT_EQ(not_executable->WaitForEnd(absl::ZeroDuration()), 126);

  const auto folder = Start({Muster(), "run", "-n", "2", "--", ::testing::TempDir()});
  ExpectFails(*folder, {"muster run: ", ::testing::TempDir()});
  EXPECT_EQ(folder->WaitForEnd(absl::ZeroDuration()), 126);
  ExpectNothingLeft();
}

TEST_F(BadInputTest, SpacesInPathsOfProgramAndDataAreFine) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/a folder  with spaces");
  mkdir(folder.c_str(), 0755);
  const std::string program = absl::StrCat(folder, "/fashion mnist");
  // A copy: a link's target is what a program sees as its own path.
  std::filesystem::copy_file(Example(), program, std::filesystem::copy_options::overwrite_existing);
  const std::vector<std::string> example = {program, absl::StrCat("--data=", GoodData()),
                                            "--epochs=1",
                                            absl::StrCat("--report=", folder, "/the report.json")};
  const auto self = Start(example);
  EXPECT_EQ(self->WaitForEnd(AtOnce()), 0) << self->Transcript();
  EXPECT_THAT(self->Output(), AllOf(HasSubstr("[0] fit 1/1: loss"), HasSubstr("left: nothing")));
  EXPECT_TRUE(std::filesystem::exists(absl::StrCat(folder, "/the report.json")));
  std::vector<std::string> command = {Muster(), "run", "-n", "2", "--"};
  command.insert(command.end(), example.begin(), example.end());
  const auto launched = Start(command);
  EXPECT_EQ(launched->WaitForEnd(AtOnce()), 0) << launched->Transcript();
  EXPECT_THAT(launched->Output(), HasSubstr("[0] fit 1/1: loss"));
  ExpectNothingLeft();
}

// --- Misuse of groups, over the job's real store

class MisuseTest : public BadInputTest {
 protected:
  std::unique_ptr<ExampleJob> StartMistake(const std::string& mistake) {
    return Start(
        {Muster(), "run", "-n", "2", "--", ProgramFile("trainer/examples/faulty_rank"), mistake});
  }
};

TEST_F(MisuseTest, UseAfterCloseIsRefusedOnEveryRankWithTheGroupAndItsState) {
  const auto job = StartMistake("use_after_close");
  for (const int rank : {0, 1}) {
    ExpectFails(*job, {absl::StrCat("faulty_rank, rank ", rank, ": "), "all_reduce", "default/1",
                       "closed"});
  }
  ExpectNothingLeft();
}

TEST_F(MisuseTest, ASecondCloseHasTheResultOfTheFirstAndAcquireAfterItSaysWhatToDo) {
  const auto job = StartMistake("close_twice");
  for (const int rank : {0, 1}) {
    const std::string who = absl::StrCat("faulty_rank, rank ", rank, ": ");
    ExpectFails(*job, {who, "Acquire on a pool that was closed: make a new pool"});
    int closes = 0;
    for (const OutputLine& line : job->lines()) {
      if (line.text == absl::StrCat("[", rank, "] ", who, "OK")) ++closes;
    }
    EXPECT_EQ(closes, 4) << job->Transcript();
  }
  ExpectNothingLeft();
}

TEST_F(MisuseTest, InAForkedChildTheParentsGroupIsRefusedAndTheParentsWorksOn) {
  const auto job = StartMistake("acquire_in_child");
  for (const int rank : {0, 1}) {
    const std::string who = absl::StrCat("faulty_rank, rank ", rank, ": ");
    ExpectFails(*job, {who, "Acquire in a forked child", "make the pool after fork"});
    ExpectFails(*job, {absl::StrCat("faulty_rank, rank ", rank, ", parent: OK")});
    int refused = 0;
    for (const OutputLine& line : job->lines()) {
      if (line.text.find(who) != std::string::npos) ++refused;
    }
    EXPECT_EQ(refused, 3) << job->Transcript();
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace muster
