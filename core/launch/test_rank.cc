#include "muster/core/launch/test_rank.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

constexpr absl::string_view kMark = "--muster_test_rank";

volatile sig_atomic_t exit_code_on_signal = 0;

void Put(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void PrintLine(absl::string_view text) { Put(STDOUT_FILENO, absl::StrCat(text, "\n")); }

int Number(absl::string_view text) {
  int value = 0;
  if (!absl::SimpleAtoi(text, &value)) _exit(99);
  return value;
}

[[noreturn]] void WaitForEver() {
  while (true) pause();
}

void Die(absl::string_view signal) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  ::signal(Number(signal), SIG_DFL);
  raise(Number(signal));
}

void ExitOn(absl::string_view arguments) {
  const std::pair<absl::string_view, absl::string_view> both =
      absl::StrSplit(arguments, absl::MaxSplits(' ', 1));
  exit_code_on_signal = Number(both.second);
  ::signal(Number(both.first), [](int) { _exit(exit_code_on_signal); });
}

void PrintVariable(absl::string_view name) {
  const char* value = getenv(std::string(name).c_str());
  PrintLine(value == nullptr ? absl::StrCat(name, " unset") : absl::StrCat(name, "=", value));
}

void PrintSignals(absl::string_view) {
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  std::vector<int> masked;
  std::vector<int> ignored;
  for (int signal = 1; signal < 32; ++signal) {
    if (sigismember(&blocked, signal) == 1) masked.push_back(signal);
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) ignored.push_back(signal);
  }
  PrintLine(absl::StrCat("blocked [", absl::StrJoin(masked, ","), "] ignored [",
                         absl::StrJoin(ignored, ","), "]"));
}

void PrintDescriptors(absl::string_view) {
  std::set<int> open;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    int fd = 0;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd != dirfd(folder)) open.insert(fd);
  }
  closedir(folder);
  PrintLine(absl::StrCat("fds ", absl::StrJoin(open, ",")));
}

void PrintInput(absl::string_view) {
  char buffer[64];
  PrintLine(absl::StrCat("stdin has ", read(STDIN_FILENO, buffer, sizeof(buffer)), " bytes"));
}

// A file's bytes, with spaces for those that separate its parts.
void PrintFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::replace(content.begin(), content.end(), '\0', ' ');
  PrintLine(content);
}

void PrintMode(absl::string_view variable) {
  const char* path = getenv(std::string(variable).c_str());
  struct stat file = {};
  struct stat folder = {};
  if (path == nullptr || stat(path, &file) != 0) _exit(98);
  const std::string parent(path, absl::string_view(path).rfind('/'));
  stat(parent.c_str(), &folder);
  PrintLine(absl::StrFormat("mode %o in %o", file.st_mode & 0777, folder.st_mode & 0777));
  PrintFile(path);
}

void PrintLines(int fd, absl::string_view count) {
  for (int i = 0; i < Number(count); ++i) Put(fd, absl::StrFormat("%099d\n", i));
}

// Says when it is there, so that the rank's end cannot come before it, nor before that of the
// process between them.
void StartDaemon(absl::string_view) {
  int ready[2];
  if (pipe(ready) != 0) _exit(97);
  const pid_t between = fork();
  if (between == 0) {
    setsid();
    if (fork() == 0) {
      Put(ready[1], "x");
      WaitForEver();
    }
    _exit(0);
  }
  char byte;
  (void)!read(ready[0], &byte, 1);
  waitpid(between, nullptr, 0);
}

void StartChild(absl::string_view) {
  if (fork() == 0) WaitForEver();
}

void StartBrief(absl::string_view) {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (getppid() == parent) {
    int signal = 0;
    sigwait(&signals, &signal);
  }
  usleep(50000);
  _exit(0);
}

using Step = std::function<void(absl::string_view)>;

const std::map<absl::string_view, Step>& Steps() {
  static const auto* const steps = new std::map<absl::string_view, Step>{
      {"print", PrintLine},
      {"write", [](absl::string_view text) { Put(STDOUT_FILENO, text); }},
      {"error", [](absl::string_view text) { Put(STDERR_FILENO, absl::StrCat(text, "\n")); }},
      {"lines", [](absl::string_view count) { PrintLines(STDOUT_FILENO, count); }},
      {"error_lines", [](absl::string_view count) { PrintLines(STDERR_FILENO, count); }},
      {"cmdline", [](absl::string_view) { PrintFile("/proc/self/cmdline"); }},
      {"environment", [](absl::string_view) { PrintFile("/proc/self/environ"); }},
      {"exit", [](absl::string_view code) { _exit(Number(code)); }},
      {"die", Die},
      {"wait", [](absl::string_view) { WaitForEver(); }},
      {"stop", [](absl::string_view) { raise(SIGSTOP); }},
      {"ignore", [](absl::string_view signal) { ::signal(Number(signal), SIG_IGN); }},
      {"on", ExitOn},
      {"variable", PrintVariable},
      {"mask", PrintSignals},
      {"fds", PrintDescriptors},
      {"input", PrintInput},
      {"daemon", StartDaemon},
      {"child", StartChild},
      {"brief", StartBrief},
      {"pid", [](absl::string_view) { PrintLine(absl::StrCat("pid ", getpid())); }},
      {"file", PrintMode},
  };
  return *steps;
}

}  // namespace

std::vector<std::string> TestRankCommand(std::vector<std::string> steps) {
  std::vector<std::string> command = {"/proc/self/exe", std::string(kMark)};
  command.insert(command.end(), steps.begin(), steps.end());
  return command;
}

bool IsTestRank(int argc, char** argv) { return argc > 1 && argv[1] == kMark; }

int TestRankMain(int argc, char** argv) {
  const char* rank = getenv("MUSTER_RANK");
  if (rank == nullptr) return 96;
  for (int i = 2; i < argc; ++i) {
    const std::pair<absl::string_view, absl::string_view> who =
        absl::StrSplit(argv[i], absl::MaxSplits(':', 1));
    if (who.first != "*" && who.first != rank) continue;
    const std::pair<absl::string_view, absl::string_view> step =
        absl::StrSplit(who.second, absl::MaxSplits(' ', 1));
    const auto found = Steps().find(step.first);
    if (found == Steps().end()) return 95;
    found->second(step.second);
  }
  return 0;
}

}  // namespace muster
