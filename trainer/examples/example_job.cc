#include "muster/trainer/examples/example_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

// Nothing tells us of a process's end while somebody else holds its output open.
constexpr absl::Duration kLook = absl::Milliseconds(5);

void Require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

std::string NewFolder() {
  std::string path = absl::StrCat(::testing::TempDir(), "/job-XXXXXX");
  Require(mkdtemp(path.data()) != nullptr, path.c_str());
  return path;
}

std::set<std::string> NamesIn(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

std::set<std::string> Segments() { return NamesIn("/dev/shm"); }

std::vector<std::string> EntriesOf(const ExampleJob::Variables& more, const JobPlace& place) {
  Environment::Variables variables = Environment::OfProcess().variables();
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
    variables.erase(name);
    variables.erase(absl::StrCat("MUSTER_", name));
  }
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "MUSTER_STORE", "MUSTER_TOKEN_FILE", "MUSTER_FAULTS",
        "MUSTER_TERMINAL", "BUILD_WORKING_DIRECTORY", "COLUMNS"}) {
    variables.erase(name);
  }
  variables["TMPDIR"] = place.temporary_folder();
  for (const auto& [name, value] : more) variables[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

JobPlace::JobPlace() : temporary_folder_(NewFolder()), segments_before_(Segments()) {
  Require(subreaper_.works(), "PR_SET_CHILD_SUBREAPER");
}

JobPlace::~JobPlace() {
  // Those that lose their parent to us come next.
  while (KillChildren() > 0) {
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  std::error_code error;
  std::filesystem::remove_all(temporary_folder_, error);
}

std::vector<std::string> JobPlace::Left() const {
  std::vector<std::string> left;
  for (const ProcessInfo& process : LivingDescendants()) {
    left.push_back(absl::StrCat("process ", process.pid, " (", process.command, ")"));
  }
  for (const std::string& name : NamesIn(temporary_folder_)) {
    left.push_back(absl::StrCat("file ", temporary_folder_, "/", name));
  }
  for (const std::string& name : Segments()) {
    if (segments_before_.count(name) == 0) left.push_back(absl::StrCat("segment /dev/shm/", name));
  }
  return left;
}

ExampleJob::ExampleJob(const JobPlace& place, std::vector<std::string> command, Variables variables)
    : command_(std::move(command)), started_(MonotonicNow()) {
  int ends[2];
  Require(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  fd_ = ends[0];
  Start(place, variables, ends[1]);
}

ExampleJob::ExampleJob(const JobPlace& place, std::vector<std::string> command,
                       PseudoTerminal terminal)
    : command_(std::move(command)), fd_(terminal.ReleaseScreen()), started_(MonotonicNow()) {
  Start(place, {}, terminal.ReleaseProgram());
}

void ExampleJob::Start(const JobPlace& place, const Variables& variables, int output) {
  const std::vector<std::string> entries = EntriesOf(variables, place);
  const std::vector<char*> arguments = Pointers(command_);
  const std::vector<char*> environment = Pointers(entries);
  pid_ = fork();
  Require(pid_ >= 0, "fork");
  if (pid_ == 0) {
    setpgid(0, 0);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0) {
      _exit(99);
    }
    execve(arguments[0], arguments.data(), environment.data());
    _exit(98);
  }
  setpgid(pid_, pid_);  // by whoever comes first, so that it is done when this returns
  close(output);
}

ExampleJob::~ExampleJob() {
  if (!Reap()) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (fd_ >= 0) close(fd_);
}

std::map<int, pid_t> ExampleJob::RankPids() const {
  std::map<int, pid_t> pids;
  for (const ProcessInfo& process : LivingDescendants()) {
    int rank = 0;
    if (process.parent == pid_ &&
        absl::SimpleAtoi(VariableOfProcess(process.pid, "MUSTER_RANK").value_or(""), &rank)) {
      pids[rank] = process.pid;
    }
  }
  return pids;
}

std::optional<OutputLine> ExampleJob::WaitForLine(const std::vector<std::string>& parts,
                                                  absl::Duration within) {
  const absl::Time until = MonotonicNow() + within;
  size_t looked_at = 0;
  while (true) {
    for (; looked_at < lines_.size(); ++looked_at) {
      const std::string& text = lines_[looked_at].text;
      if (std::all_of(parts.begin(), parts.end(),
                      [&](const std::string& part) { return absl::StrContains(text, part); })) {
        return lines_[looked_at];
      }
    }
    if (fd_ < 0 || MonotonicNow() >= until) return std::nullopt;
    ReadSome(until);
  }
}

std::optional<int> ExampleJob::WaitForEnd(absl::Duration within) {
  const absl::Time until = MonotonicNow() + within;
  while (!Reap()) {
    const absl::Time now = MonotonicNow();
    if (now >= until) return std::nullopt;
    if (fd_ >= 0) {
      ReadSome(std::min(until, now + kLook));
    } else {
      poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(kLook)));
    }
  }
  // What it wrote is in the pipe; what others that hold the pipe may still write is not its own.
  while (fd_ >= 0) {
    pollfd ready = {fd_, POLLIN, 0};
    if (poll(&ready, 1, 0) <= 0) break;
    ReadSome(MonotonicNow());
  }
  return code_;
}

void ExampleJob::ReadSome(absl::Time until) {
  pollfd ready = {fd_, POLLIN, 0};
  const absl::Duration left = std::max(until - MonotonicNow(), absl::ZeroDuration());
  const int64_t milliseconds = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
  if (poll(&ready, 1, static_cast<int>(std::min<int64_t>(milliseconds, 60000))) <= 0) return;
  char bytes[1 << 16];
  const ssize_t count = read(fd_, bytes, sizeof(bytes));
  if (count > 0) {
    TakeLines(absl::string_view(bytes, static_cast<size_t>(count)));
  } else if (count == 0 || errno != EINTR) {
    close(fd_);
    fd_ = -1;
    ended_with_a_line_ = partial_.empty();
    if (!partial_.empty()) TakeLines("\n");
  }
}

void ExampleJob::TakeLines(absl::string_view bytes) {
  const absl::Time now = MonotonicNow();
  partial_.append(bytes.data(), bytes.size());
  size_t begin = 0;
  for (size_t end; (end = partial_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines_.push_back({now, partial_.substr(begin, end - begin)});
  }
  partial_.erase(0, begin);
}

bool ExampleJob::Reap() {
  if (code_.has_value()) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

std::string ExampleJob::Output() const {
  return absl::StrJoin(lines_, "\n",
                       [](std::string* out, const OutputLine& line) { out->append(line.text); });
}

std::string ExampleJob::Transcript() const {
  constexpr size_t kShown = 100;
  std::string text = absl::StrCat("\n", absl::StrJoin(command_, " "), "\n");
  const size_t hidden = lines_.size() > kShown ? lines_.size() - kShown : 0;
  if (hidden > 0) absl::StrAppend(&text, "  (", hidden, " lines)\n");
  for (size_t i = hidden; i < lines_.size(); ++i) {
    absl::StrAppendFormat(&text, "  %7.3f s  %s\n", absl::ToDoubleSeconds(lines_[i].at - started_),
                          lines_[i].text);
  }
  absl::StrAppend(
      &text, code_.has_value() ? absl::StrCat("  exit code ", *code_) : "  still running", "\n");
  return text;
}

std::string ProgramFile(const std::string& path) {
  const Environment environment = Environment::OfProcess();
  return absl::StrCat(environment.Get("TEST_SRCDIR").value_or("."), "/",
                      environment.Get("TEST_WORKSPACE").value_or("muster"), "/", path);
}

}  // namespace muster
