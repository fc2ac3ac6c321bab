// Each test runs in a forked process, which the signal may end.
#include "muster/core/group/shutdown_on_signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): absl has no thread
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/observe/live_groups.h"

namespace muster {
namespace {

constexpr char kTerminated[] = "was told to stop by signal 15 (Terminated);";

// What the forked process says to the test, or the other way round.
class Pipe {
 public:
  Pipe() {
    if (pipe2(fds_, O_CLOEXEC) != 0) abort();
  }
  ~Pipe() {
    CloseReading();
    CloseWriting();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void CloseReading() { Close(0); }
  void CloseWriting() { Close(1); }

  bool Try(const std::string& text) const { return write(fds_[1], text.data(), text.size()) >= 0; }
  void Say(const std::string& text) const {
    if (!Try(text)) abort();
  }
  void AwaitByte() const {
    // In poll, which a signal interrupts: TSan runs no handler while the system restarts a read.
    pollfd ready = {fds_[0], POLLIN, 0};
    char byte;
    while (poll(&ready, 1, -1) != 1 || read(fds_[0], &byte, 1) != 1) {
    }
  }
  void TakeErrors() const {
    if (dup2(fds_[1], STDERR_FILENO) < 0) abort();
  }
  std::string ReadTo(char end) const {
    std::string text;
    char byte;
    while (read(fds_[0], &byte, 1) == 1) {
      text += byte;
      if (byte == end) break;
    }
    return text;
  }

 private:
  void Close(int end) {
    if (fds_[end] >= 0) close(std::exchange(fds_[end], -1));
  }
  int fds_[2] = {-1, -1};
};

// A pool of the forked process: says why it is aborted, and may need a byte to be done with that.
class ToldPool final : public LivePool {
 public:
  explicit ToldPool(const Pipe& said, const Pipe* go = nullptr) : said_(said), go_(go) {
    LivePools::Global().Add(this);
  }
  ~ToldPool() override {
    if (!LivePools::Global().Remove(this)) abort();
  }
  std::vector<LiveGroup> LiveGroups() const override { return {}; }
  void BeginAbort(absl::string_view why) override { said_.Say(absl::StrCat(why, ";")); }
  void AbortBecause(absl::string_view) override {
    if (go_ != nullptr) go_->AwaitByte();
    said_.Say("aborted;");
  }
  absl::Duration AbortBound() const override { return bound; }
  bool RunsHere() const override { return std::this_thread::get_id() == needed.load(); }

  absl::Duration bound = absl::InfiniteDuration();
  std::atomic<std::thread::id> needed{std::thread::id()};

 private:
  const Pipe& said_;
  const Pipe* const go_;
};

const Pipe* handler_says = nullptr;
void UsersHandler(int signal) { handler_says->Say(absl::StrCat("handler ", signal, ";")); }

struct sigaction ActionOf(int signal) {
  struct sigaction action = {};
  if (sigaction(signal, nullptr, &action) != 0) abort();
  return action;
}

struct sigaction SetHandler(int signal, void (*handler)(int)) {
  struct sigaction before = {};
  struct sigaction action = {};
  action.sa_handler = handler;
  if (sigaction(signal, &action, &before) != 0) abort();
  return before;
}

int WaitForEver() {
  while (true) pause();
}

// What `pid` ended with: "exit 0", "signal 15".
std::string EndOf(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return "?";
  return WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                             : absl::StrCat("exit ", WEXITSTATUS(status));
}

// A process that the signals may end, with the program that `body` is in it. It has a minute.
class Forked {
 public:
  explicit Forked(const std::function<int(Forked&)>& body) {
    pid_ = fork();
    if (pid_ < 0) abort();
    if (pid_ != 0) {
      signal(SIGPIPE, SIG_IGN);  // of one that has ended against expectation
      said_.CloseWriting();
      go_.CloseReading();
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    said_.CloseReading();
    go_.CloseWriting();
    handler_says = &said_;
    exit(body(*this));
  }

  // --- of the test
  std::string Said() const { return said_.ReadTo(';'); }
  std::string SaidToTheEnd() const { return said_.ReadTo('\0'); }
  void Go() const { EXPECT_TRUE(go_.Try("x")) << "it has ended already"; }
  void Kill(int signal) const { EXPECT_EQ(kill(pid_, signal), 0); }
  std::string End() const { return EndOf(pid_); }

  // --- of the program
  void Say(const std::string& text) const { said_.Say(absl::StrCat(text, ";")); }
  void AwaitGo() const { go_.AwaitByte(); }
  const Pipe& said() const { return said_; }
  const Pipe& go() const { return go_; }

 private:
  Pipe said_, go_;
  pid_t pid_ = -1;
};

// Of the program.
std::unique_ptr<ShutdownOnSignals> Shutdown(ShutdownOptions options = {}) {
  absl::StatusOr<std::unique_ptr<ShutdownOnSignals>> shutdown = ShutdownOnSignals::Create(options);
  if (!shutdown.ok()) abort();
  return *std::move(shutdown);
}

TEST(ShutdownOnSignalsTest, TheGroupsEndAndThenTheProcessDiesOfTheSignal) {
  for (const auto& [signal, why] : {std::pair<int, std::string>{SIGTERM, kTerminated},
                                    {SIGINT, "was told to stop by signal 2 (Interrupt);"}}) {
    Forked program([](Forked& self) {
      ToldPool pool(self.said());
      const auto shutdown = Shutdown();
      self.Say("ready");
      return WaitForEver();
    });
    EXPECT_EQ(program.Said(), "ready;");
    program.Kill(signal);
    EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(why, "aborted;"));
    EXPECT_EQ(program.End(), absl::StrCat("signal ", signal));
  }
}

TEST(ShutdownOnSignalsTest, AHandlerOfTheProgramIsCalledOnceWhenTheGroupsHaveEnded) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said());
    SetHandler(SIGTERM, UsersHandler);
    const auto shutdown = Shutdown();
    self.Say("ready");
    self.AwaitGo();
    return 7;
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.Said(), kTerminated);
  EXPECT_EQ(program.Said(), "aborted;");
  EXPECT_EQ(program.Said(), "handler 15;");
  program.Go();
  EXPECT_EQ(program.SaidToTheEnd(), "");
  EXPECT_EQ(program.End(), "exit 7") << "and the program goes on";
}

TEST(ShutdownOnSignalsTest, AnIgnoredSignalStaysIgnored) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said());
    SetHandler(SIGINT, SIG_IGN);
    const auto shutdown = Shutdown();
    kill(getpid(), SIGINT);
    return ActionOf(SIGINT).sa_handler == SIG_IGN ? 0 : 1;
  });
  EXPECT_EQ(program.SaidToTheEnd(), "");
  EXPECT_EQ(program.End(), "exit 0");
}

// The system gives it to a thread that was there before, which its handler then runs on.
TEST(ShutdownOnSignalsTest, ThreadsThatWereThereBeforeDoNotDieOfIt) {
  Forked program([](Forked& self) {
    std::thread before([] { WaitForEver(); });
    before.detach();
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &both, nullptr);  // here, so that the other thread has to take it
    ToldPool pool(self.said());
    const auto shutdown = Shutdown();
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(kTerminated, "aborted;"));
  EXPECT_EQ(program.End(), "signal 15");
}

TEST(ShutdownOnSignalsTest, ASecondSignalEndsTheProcessAtOnce) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said(), &self.go());  // which never comes
    ShutdownOptions patient;
    patient.close_timeout = absl::InfiniteDuration();
    const auto shutdown = Shutdown(patient);
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.Said(), kTerminated);
  program.Kill(SIGINT);
  EXPECT_EQ(program.SaidToTheEnd(), "");
  EXPECT_EQ(program.End(), "signal 2");
}

// `timeout` signals its child and then its process group, a terminal beside whoever started it.
TEST(ShutdownOnSignalsTest, TheSameSignalTwiceAtOnceIsOneRequest) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said(), &self.go());
    SetHandler(SIGTERM, UsersHandler);
    const auto shutdown = Shutdown();
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGTERM);
    self.Say("sent");
    return 0;
  });
  std::string said = program.Said();
  said += program.Said();
  EXPECT_TRUE(said == absl::StrCat("sent;", kTerminated) ||
              said == absl::StrCat(kTerminated, "sent;"))
      << said;
  program.Go();
  EXPECT_EQ(program.SaidToTheEnd(), "aborted;handler 15;");
  EXPECT_EQ(program.End(), "exit 0");
}

TEST(ShutdownOnSignalsTest, TheSignalIsHeldBackForCloseTimeoutAtMost) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said(), &self.go());  // which never comes
    ShutdownOptions options;
    options.close_timeout = absl::Milliseconds(50);
    const auto shutdown = Shutdown(options);
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.SaidToTheEnd(), kTerminated);
  EXPECT_EQ(program.End(), "signal 15");
}

// That is what this class is for: their peers learn why before the process is killed.
TEST(ShutdownOnSignalsTest, APoolThatDoesNotEndKeepsNoOtherOneFromSayingWhy) {
  Forked program([](Forked& self) {
    ToldPool stuck(self.said(), &self.go());  // which never comes
    ToldPool other(self.said());
    ShutdownOptions options;
    options.close_timeout = absl::Milliseconds(50);
    const auto shutdown = Shutdown(options);
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(kTerminated, kTerminated));
  EXPECT_EQ(program.End(), "signal 15");
}

TEST(ShutdownOnSignalsTest, AnExitAfterASignalThatWasHeldBackNoLongerWaitsNoLongerEither) {
  Forked program([](Forked& self) {
    // There until the process is gone: its abort still runs.
    auto* const stuck = new ToldPool(self.said(), &self.go());  // which never comes
    stuck->bound = absl::Milliseconds(100);
    SetHandler(SIGTERM, UsersHandler);
    ShutdownOptions options;
    options.close_timeout = absl::Milliseconds(50);
    const auto shutdown = Shutdown(options);
    kill(getpid(), SIGTERM);
    return 7;
  });
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(kTerminated, "handler 15;"));
  EXPECT_EQ(program.End(), "exit 7");
}

TEST(ShutdownOnSignalsTest, AnExitOnAThreadThatTheAbortNeedsWaitsForNothing) {
  Forked program([](Forked& self) -> int {
    auto* const pool = new ToldPool(self.said(), &self.go());  // which never comes
    ShutdownOptions patient;
    patient.close_timeout = absl::InfiniteDuration();
    const auto shutdown = Shutdown(patient);
    pool->needed = std::this_thread::get_id();
    kill(getpid(), SIGTERM);
    while (!LivePools::Global().AbortNeedsThisThread()) std::this_thread::yield();
    exit(4);
  });
  EXPECT_EQ(program.SaidToTheEnd(), kTerminated);
  EXPECT_EQ(program.End(), "exit 4");
}

TEST(ShutdownOnSignalsTest, WhoSentTheSignalIsInTheLog) {
  Forked program([](Forked& self) {
    const auto shutdown = Shutdown();
    self.said().TakeErrors();
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  const std::string said = program.SaidToTheEnd();
  EXPECT_TRUE(absl::StrContains(said, absl::StrCat("signal 15 (Terminated) of process ", getpid(),
                                                   ": the process's groups are aborted")))
      << said;
  EXPECT_EQ(program.End(), "signal 15");
}

// Whoever waits in an operation wakes up with an error, and may be faster than the shutdown.
TEST(ShutdownOnSignalsTest, WhoeverReturnsFromMainMeanwhileStillDiesOfTheSignal) {
  enum Way { kReturn, kExit, kQuickExit };
  for (const Way way : {kReturn, kExit, kQuickExit}) {
    Forked program([way](Forked& self) {
      ToldPool pool(self.said(), &self.go());
      const auto shutdown = Shutdown();
      kill(getpid(), SIGTERM);
      self.Say("main is done");
      if (way == kExit) exit(3);
      if (way == kQuickExit) quick_exit(3);
      return 3;
    });
    std::string said = program.Said();
    said += program.Said();
    EXPECT_TRUE(absl::StrContains(said, "main is done")) << said;
    program.Go();
    EXPECT_EQ(program.SaidToTheEnd(), "aborted;");
    EXPECT_EQ(program.End(), "signal 15") << way;
  }
}

TEST(ShutdownOnSignalsTest, AProcessHasOneAndTheErrorSaysWhereThatWasMade) {
  Forked program([](Forked& self) {
    const auto shutdown = Shutdown();
    self.Say(std::string(ShutdownOnSignals::Create().status().message()));
    return 0;
  });
  const std::string said = program.Said();
  EXPECT_TRUE(absl::StartsWith(said, "ShutdownOnSignals at shutdown_on_signals_test.cc:")) << said;
  EXPECT_TRUE(absl::StrContains(said, ": the one made at shutdown_on_signals_test.cc:")) << said;
  EXPECT_EQ(program.End(), "exit 0");
}

TEST(ShutdownOnSignalsTest, ATimeoutOfNothingIsRefused) {
  ShutdownOptions options;
  options.close_timeout = absl::ZeroDuration();
  EXPECT_EQ(ShutdownOnSignals::Create(options).status().message(),
            "ShutdownOptions.close_timeout is 0: it must be more than zero");
}

// L10: what it changes it says, and puts back.
TEST(ShutdownOnSignalsTest, ItsEndPutsBackWhatTheProgramHadAndTheNextOneWorks) {
  Forked program([](Forked& self) {
    SetHandler(SIGINT, UsersHandler);
    for (int i = 0; i < 3; ++i) {
      const auto shutdown = Shutdown();
      if (ActionOf(SIGTERM).sa_handler == SIG_DFL) return 1;
      if (ActionOf(SIGINT).sa_handler == UsersHandler) return 2;
    }
    if (ActionOf(SIGTERM).sa_handler != SIG_DFL) return 3;
    if (ActionOf(SIGINT).sa_handler != UsersHandler) return 4;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (sigismember(&blocked, SIGTERM) != 0 || sigismember(&blocked, SIGINT) != 0) return 5;
    ToldPool pool(self.said());
    const auto shutdown = Shutdown();
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(kTerminated, "aborted;"));
  EXPECT_EQ(program.End(), "signal 15");
}

TEST(ShutdownOnSignalsTest, AHandlerThatIsInstalledLaterStays) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said());
    {
      const auto shutdown = Shutdown();
      SetHandler(SIGTERM, UsersHandler);
      kill(getpid(), SIGTERM);
    }
    return ActionOf(SIGTERM).sa_handler == UsersHandler ? 0 : 1;
  });
  EXPECT_EQ(program.SaidToTheEnd(), "handler 15;");
  EXPECT_EQ(program.End(), "exit 0");
}

struct sigaction chained = {};
void ChainingHandler(int signal) {
  UsersHandler(signal);
  chained.sa_sigaction(signal, nullptr, nullptr);
}

TEST(ShutdownOnSignalsTest, AHandlerThatIsInstalledLaterAndCallsTheOneBeforeIsCalledOnce) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said());
    const auto shutdown = Shutdown();
    chained = SetHandler(SIGTERM, ChainingHandler);
    self.Say("ready");
    return WaitForEver();
  });
  EXPECT_EQ(program.Said(), "ready;");
  program.Kill(SIGTERM);
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat("handler 15;", kTerminated, "aborted;"));
  EXPECT_EQ(program.End(), "signal 15") << "as without it, after the handler";
}

TEST(ShutdownOnSignalsTest, ASignalToAForkedChildEndsTheChildAloneAndWhatItExecutesTooHasDefaults) {
  Forked program([](Forked& self) {
    ToldPool pool(self.said());
    const auto shutdown = Shutdown();
    const pid_t child = fork();
    if (child == 0) return WaitForEver();
    kill(child, SIGTERM);
    self.Say(EndOf(child));
    const pid_t ends_itself = fork();
    if (ends_itself == 0) return 4;  // by the destructor, and exit
    self.Say(EndOf(ends_itself));
    const pid_t executes = fork();
    if (executes == 0) {
      execl("/bin/sh", "sh", "-c", "kill -TERM $$; exit 5", nullptr);
      abort();
    }
    self.Say(EndOf(executes));
    return 0;
  });
  EXPECT_EQ(program.SaidToTheEnd(), "signal 15;exit 4;signal 15;");
  EXPECT_EQ(program.End(), "exit 0");
}

TEST(ShutdownOnSignalsTest, AForkedChildMayHaveItsOwn) {
#ifdef ABSL_HAVE_THREAD_SANITIZER
  GTEST_SKIP() << "TSan lets no forked child of a process with threads make one";
#endif
  Forked program([](Forked& self) {
    ToldPool parents(self.said());
    const auto shutdown = Shutdown();
    const pid_t child = fork();
    if (child == 0) {
      ToldPool own(self.said());
      const auto of_the_child = Shutdown();
      kill(getpid(), SIGTERM);
      return WaitForEver();
    }
    self.Say(EndOf(child));
    return 0;
  });
  EXPECT_EQ(program.SaidToTheEnd(), absl::StrCat(kTerminated, "aborted;signal 15;"));
  EXPECT_EQ(program.End(), "exit 0");
}

// What a handler does to which the signal was given before the end, and which runs after it.
TEST(ShutdownOnSignalsTest, AHandlerThatComesTooLateGivesTheSignalToTheProgram) {
  Forked program([](Forked&) {
    SetHandler(SIGTERM, UsersHandler);
    struct sigaction its = {};
    {
      const auto shutdown = Shutdown();
      its = ActionOf(SIGTERM);
    }
    its.sa_sigaction(SIGTERM, nullptr, nullptr);
    return ActionOf(SIGTERM).sa_handler == UsersHandler ? 0 : 1;
  });
  EXPECT_EQ(program.SaidToTheEnd(), "handler 15;");
  EXPECT_EQ(program.End(), "exit 0");
}

// A library that takes a signal for a while, and puts back what it had found.
TEST(ShutdownOnSignalsTest, WhoPutsItsHandlerBackAfterItsEndDoesNotMakeTheProcessDeaf) {
  for (const bool another : {false, true}) {
    Forked program([another](Forked&) {
      SetHandler(SIGINT, UsersHandler);
      struct sigaction term = {};
      struct sigaction interrupt = {};
      {
        const auto shutdown = Shutdown();
        term = SetHandler(SIGTERM, UsersHandler);
        interrupt = SetHandler(SIGINT, UsersHandler);
      }
      sigaction(SIGTERM, &term, nullptr);
      sigaction(SIGINT, &interrupt, nullptr);
      if (another) Shutdown();
      raise(SIGINT);
      raise(SIGTERM);
      return 7;
    });
    EXPECT_EQ(program.SaidToTheEnd(), "handler 2;");
    EXPECT_EQ(program.End(), "signal 15") << another;
  }
}

// A signal may come at any moment of its life: it is never lost, and nothing hangs.
TEST(ShutdownOnSignalsTest, ASignalAtTheMomentOfItsEndIsNotLost) {
  for (int round = 0; round < 50; ++round) {
    Forked program([](Forked& self) {
      static std::atomic<int> handled{0};
      SetHandler(SIGTERM, [](int) { ++handled; });
      std::atomic<bool> go{false};
      std::thread sender([&go] {
        while (!go) std::this_thread::yield();
        kill(getpid(), SIGTERM);
      });
      {
        const auto shutdown = Shutdown();
        go = true;
      }
      sender.join();
      while (handled == 0) std::this_thread::yield();
      self.Say("handled");
      return handled == 1 ? 0 : 1;
    });
    ASSERT_EQ(program.SaidToTheEnd(), "handled;");
    ASSERT_EQ(program.End(), "exit 0");
  }
}

}  // namespace
}  // namespace muster
