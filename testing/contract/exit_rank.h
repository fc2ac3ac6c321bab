// A rank of a job of three for exit_paths_test: rank 1 brings its group into a state and then ends
// its process in some way, ranks 0 and 2 live on and say what they learned of it.
//
//   job.command = ExitRankCommand("collective", "quick_exit", "gloo", "/tmp/fifo");
//   int main(...) { if (IsExitRank(argc, argv)) return ExitRankMain(argv); ... }
#ifndef MUSTER_TESTING_CONTRACT_EXIT_RANK_H_
#define MUSTER_TESTING_CONTRACT_EXIT_RANK_H_

#include <string>
#include <vector>

namespace muster::testing {

constexpr int kExitRanks = 3;
constexpr int kExits = 1;  // the rank that does

// Of rank 1's group, when its process ends.
const std::vector<std::string>& ExitStates();

// `fifo`: what rank 2 waits at where it is not to come before the others have failed. It lies in a
// folder that the ranks may write to.
std::vector<std::string> ExitRankCommand(const std::string& state, const std::string& path,
                                         const std::string& backend, const std::string& fifo);
bool IsExitRank(int argc, char** argv);
// Ranks 0 and 2 print how the group ended, "ended: destroyed" or "ended: <cause>", and "left: ..."
// what their process holds then, and exit with 0.
int ExitRankMain(char** argv);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_EXIT_RANK_H_
