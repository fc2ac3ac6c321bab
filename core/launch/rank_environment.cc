#include "muster/core/launch/rank_environment.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {

std::vector<std::string> RankEnvironment(const Environment& inherited,
                                         const RankVariables& variables) {
  std::map<std::string, std::string> all(inherited.variables().begin(),
                                         inherited.variables().end());
  // One host: the local numbers are the global ones.
  for (const char* prefix : {"", "MUSTER_"}) {
    all[absl::StrCat(prefix, "RANK")] = absl::StrCat(variables.rank);
    all[absl::StrCat(prefix, "WORLD_SIZE")] = absl::StrCat(variables.ranks);
    all[absl::StrCat(prefix, "LOCAL_RANK")] = absl::StrCat(variables.rank);
    all[absl::StrCat(prefix, "LOCAL_WORLD_SIZE")] = absl::StrCat(variables.ranks);
  }
  // Of a launcher around us: never ours.
  for (const char* name : {"MUSTER_STORE", "MUSTER_TOKEN_FILE", "MUSTER_TERMINAL"}) all.erase(name);
  if (!variables.store_address.empty()) {
    all["MUSTER_STORE"] = variables.store_address;
    all["MUSTER_TOKEN_FILE"] = variables.token_file;
  }
  if (variables.terminal_columns > 0) {
    all["MUSTER_TERMINAL"] = "1";
    all["COLUMNS"] = absl::StrCat(variables.terminal_columns);
  }
  for (const auto& [name, value] : variables.more) all[name] = value;
  std::vector<std::string> entries;
  for (const auto& [name, value] : all) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

}  // namespace muster
