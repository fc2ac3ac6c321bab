#include "muster/core/launch/rank_exit.h"

#include <sys/wait.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

RankExit RankExit::FromWaitStatus(int status) {
  return WIFSIGNALED(status) ? Killed(WTERMSIG(status)) : Exited(WEXITSTATUS(status));
}

std::string RankExit::ToString() const {
  return kind == Kind::kExited ? absl::StrCat("exited with code ", value)
                               : absl::StrCat("killed by signal ", value);
}

}  // namespace muster
