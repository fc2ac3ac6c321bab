#include "muster/core/observe/process_holdings.h"

#include <dirent.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <thread>  // NOLINT(build/c++11): the sanitizer's
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "muster/core/observe/live_groups.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

// How many of the entries of a folder of /proc there are, without those that looking at it makes.
int64_t CountEntries(const char* folder, int64_t own, std::string& unknown) {
  struct Close {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(opendir(folder));
  if (dir == nullptr) {
    unknown = absl::StrCat("cannot open ", folder, ": ", strerror(errno));
    return 0;
  }
  int64_t count = -own;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] != '.') ++count;
  }
  return count;
}

int64_t CountSegments(std::string& unknown) {
  std::ifstream maps("/proc/self/maps");
  if (!maps.is_open()) unknown = absl::StrCat("cannot open /proc/self/maps: ", strerror(errno));
  std::set<std::string> inodes;  // a segment that is mapped in pieces is one
  std::string line;
  while (std::getline(maps, line)) {
    std::istringstream words(line);
    std::string range, mode, offset, device, inode, path;
    words >> range >> mode >> offset >> device >> inode >> path;
    if (absl::StartsWith(path, "/dev/shm/") || absl::StartsWith(path, "/memfd:") ||
        absl::StartsWith(path, "/SYSV")) {
      inodes.insert(absl::StrCat(device, " ", inode));
    }
  }
  return static_cast<int64_t>(inodes.size());
}

int64_t Excess(int64_t now, int64_t baseline) { return std::max<int64_t>(0, now - baseline); }

}  // namespace

ProcessHoldings ProcessHoldings::Now() {
#ifdef __SANITIZE_THREAD__
  // The sanitizer starts a thread of its own with the process's first one: before a baseline, or it
  // would be taken for a thread that is left.
  static const bool sanitizer_has_its_thread = [] {
    std::thread([] {}).join();
    return true;
  }();
  static_cast<void>(sanitizer_has_its_thread);
#endif
  ProcessHoldings holdings;
  holdings.groups = static_cast<int64_t>(AllLiveGroups().size());
  holdings.fds = CountEntries("/proc/self/fd", /*own=*/1, holdings.unknown);
  holdings.threads = CountEntries("/proc/self/task", /*own=*/0, holdings.unknown);
  holdings.segments = CountSegments(holdings.unknown);
  return holdings;
}

ProcessHoldings ProcessHoldings::Beyond(const ProcessHoldings& baseline, absl::Duration patience) {
  const absl::Time deadline = MonotonicNow() + patience;
  while (true) {
    const ProcessHoldings now = Now();
    const ProcessHoldings excess = {
        Excess(now.groups, baseline.groups), Excess(now.fds, baseline.fds),
        Excess(now.threads, baseline.threads), Excess(now.segments, baseline.segments),
        baseline.unknown.empty() ? now.unknown : baseline.unknown};
    if (excess.empty() || MonotonicNow() >= deadline) return excess;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

std::string ProcessHoldings::ToString() const {
  if (!unknown.empty()) return absl::StrCat("unknown (", unknown, ")");
  std::vector<std::string> parts;
  const auto add = [&parts](int64_t count, const char* what) {
    if (count != 0) parts.push_back(absl::StrCat(count, " ", what, count == 1 ? "" : "s"));
  };
  add(groups, "group");
  add(fds, "fd");
  add(threads, "thread");
  add(segments, "segment");
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

}  // namespace muster
