// The processes below this one: those that ranks started, and, while this process is a subreaper,
// also those whose parents are gone (daemons, data loaders of a rank that died).
#ifndef MUSTER_CORE_LAUNCH_PROCESS_TREE_H_
#define MUSTER_CORE_LAUNCH_PROCESS_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// A process by its number and the time of its start, in the kernel's ticks: the number alone may
// become another's.
using ProcessId = std::pair<pid_t, uint64_t>;
using ProcessIds = std::set<ProcessId>;

struct ProcessInfo {
  pid_t pid = -1;
  pid_t parent = -1;
  std::string command;  // its arguments, or "[name]" where they cannot be read
};

// While it lives, orphans below this process become its children instead of init's, so that nothing
// escapes by setsid and a second fork.
class [[nodiscard]] ScopedSubreaper {
 public:
  ScopedSubreaper();
  ~ScopedSubreaper();
  ScopedSubreaper(const ScopedSubreaper&) = delete;
  ScopedSubreaper& operator=(const ScopedSubreaper&) = delete;

  // False on a system without it: what detaches itself is then not seen.
  bool works() const { return works_; }

 private:
  int before_ = 0;
  bool works_ = false;
};

// Living processes below this one, children before grandchildren, but for `spared` and what is
// below them. A zombie that can be waited for is not alive; a process whose main thread has ended
// and another has not is, also while that one is on its way out.
std::vector<ProcessInfo> LivingDescendants(const ProcessIds& spared = {});

// All below this process now. To be spared later: whatever started before is not ours to end, like
// the `tee` of a shell that has become this program (`exec muster run ... > >(tee log)`).
ProcessIds DescendantsNow();

// Empty when there is none of this number.
std::optional<ProcessId> IdOfProcess(pid_t pid);

// SIGKILL to every living child of this process that is not spared. As a child that nobody but the
// caller reaps keeps its number, this never hits a stranger; grandchildren become children when
// their parent dies, so calling it after each reaping ends the whole tree. Returns how many there
// were.
int KillChildren(const ProcessIds& spared = {});

// The value of a variable in the environment that the process was started with; empty when it has
// none or is not ours to read.
std::optional<std::string> VariableOfProcess(pid_t pid, absl::string_view name);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_PROCESS_TREE_H_
