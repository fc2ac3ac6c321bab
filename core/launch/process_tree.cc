#include "muster/core/launch/process_tree.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "muster/core/platform/read_file.h"

namespace muster {
namespace {

struct Stat {
  pid_t parent = -1;
  char state = '?';
  int threads = 0;
  uint64_t started = 0;
  std::string name;
};

// "" for a process that has ended, also between the open and the read.
std::string ReadAll(const std::string& path) { return ReadFile(path).value_or(""); }

// "812 (my program) S 1 ...": the name may hold anything, so the last parenthesis ends it.
std::optional<Stat> ReadStat(pid_t pid) {
  const std::string text = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(text).substr(close + 1), ' ', absl::SkipEmpty());
  // proc(5) counts the number and the name, too: these are its fields 20 and 22.
  constexpr size_t kThreads = 17;
  constexpr size_t kStarted = 19;
  Stat stat;
  if (fields.size() <= kStarted || !absl::SimpleAtoi(fields[1], &stat.parent) ||
      !absl::SimpleAtoi(fields[kThreads], &stat.threads) ||
      !absl::SimpleAtoi(fields[kStarted], &stat.started)) {
    return std::nullopt;
  }
  stat.state = fields[0][0];
  stat.name = text.substr(open + 1, close - open - 1);
  return stat;
}

// The state is the main thread's. Where that one has ended, the process lives for as long as
// another does, and cannot be waited for until then.
bool Alive(const Stat& stat) {
  if (stat.state == 'Z') return stat.threads > 1;
  return stat.state != 'X';
}

// "train" for /home/me/train; "" where it cannot be told.
std::string ProgramOf(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t length = readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), path, sizeof(path));
  if (length <= 0) return "";
  const absl::string_view whole(path, static_cast<size_t>(length));
  return std::string(whole.substr(whole.rfind('/') + 1));
}

std::string Command(pid_t pid, const Stat& stat) {
  constexpr size_t kShown = 200;
  std::string arguments = ReadAll(absl::StrCat("/proc/", pid, "/cmdline"));
  while (!arguments.empty() && arguments.back() == '\0') arguments.pop_back();
  if (arguments.empty()) return absl::StrCat("[", stat.name, "]");
  // So it calls itself who starts itself again, and it says nothing to others.
  constexpr absl::string_view kSelf = "/proc/self/exe";
  if (absl::StartsWith(arguments, kSelf) &&
      (arguments.size() == kSelf.size() || arguments[kSelf.size()] == '\0')) {
    const std::string name = ProgramOf(pid);
    if (!name.empty()) arguments.replace(0, kSelf.size(), name);
  }
  std::replace(arguments.begin(), arguments.end(), '\0', ' ');
  std::replace(arguments.begin(), arguments.end(), '\n', ' ');
  if (arguments.size() > kShown) return absl::StrCat(arguments.substr(0, kShown), "...");
  return arguments;
}

std::map<pid_t, Stat> AllProcesses() {
  std::map<pid_t, Stat> processes;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return processes;
  while (const dirent* entry = readdir(folder)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    std::optional<Stat> stat = ReadStat(pid);
    if (stat.has_value()) processes.emplace(pid, *std::move(stat));
  }
  closedir(folder);
  return processes;
}

}  // namespace

ScopedSubreaper::ScopedSubreaper() {
  prctl(PR_GET_CHILD_SUBREAPER, &before_, 0, 0, 0);
  works_ = prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

ScopedSubreaper::~ScopedSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, before_, 0, 0, 0); }

std::vector<ProcessInfo> LivingDescendants(const ProcessIds& spared) {
  const std::map<pid_t, Stat> processes = AllProcesses();
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, stat] : processes) {
    if (spared.count({pid, stat.started}) == 0) children.emplace(stat.parent, pid);
  }
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents = {getpid()};
  while (!parents.empty()) {
    std::vector<pid_t> next;
    for (const pid_t parent : parents) {
      const auto [begin, end] = children.equal_range(parent);
      for (auto child = begin; child != end; ++child) {
        const Stat& stat = processes.at(child->second);
        next.push_back(child->second);
        if (Alive(stat)) found.push_back({child->second, parent, Command(child->second, stat)});
      }
    }
    parents = std::move(next);
  }
  return found;
}

ProcessIds DescendantsNow() {
  ProcessIds ids;
  for (const ProcessInfo& process : LivingDescendants()) {
    const std::optional<ProcessId> id = IdOfProcess(process.pid);
    if (id.has_value()) ids.insert(*id);
  }
  return ids;
}

std::optional<ProcessId> IdOfProcess(pid_t pid) {
  const std::optional<Stat> stat = ReadStat(pid);
  if (!stat.has_value()) return std::nullopt;
  return ProcessId(pid, stat->started);
}

int KillChildren(const ProcessIds& spared) {
  int killed = 0;
  for (const auto& [pid, stat] : AllProcesses()) {
    if (stat.parent != getpid() || !Alive(stat) || spared.count({pid, stat.started}) != 0) continue;
    if (kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

std::optional<std::string> VariableOfProcess(pid_t pid, absl::string_view name) {
  const std::string environment = ReadAll(absl::StrCat("/proc/", pid, "/environ"));
  const std::string prefix = absl::StrCat(name, "=");
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&entry, prefix)) return std::string(entry);
  }
  return std::nullopt;
}

}  // namespace muster
