// The environment that a rank of a job starts with: how it learns who it is.
#ifndef MUSTER_CORE_LAUNCH_RANK_ENVIRONMENT_H_
#define MUSTER_CORE_LAUNCH_RANK_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

#include "muster/core/platform/environment.h"

namespace muster {

struct RankVariables {
  int rank = 0;
  int ranks = 1;
  std::string store_address;  // "": no store
  std::string token_file;
  int terminal_columns = 0;  // of the terminal that shows the rank's output; 0: none
  std::map<std::string, std::string> more;
};

// "NAME=value" for each variable of `inherited` and `variables`, which win.
std::vector<std::string> RankEnvironment(const Environment& inherited,
                                         const RankVariables& variables);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_RANK_ENVIRONMENT_H_
