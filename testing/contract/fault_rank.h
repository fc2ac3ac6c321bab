// A rank of a job in which a fault happens (fault_cell.h). It brings its group into the cell's
// phase, says that it is there, learns by its fifo what to do next, and says in the end how its
// group ended and what its process holds then.
//
//   job.command = FaultRankCommand(cell, "/tmp/folder");
//   int main(...) { if (IsFaultRank(argc, argv)) return FaultRankMain(argv); ... }
//
// Lines on its stdout, which fault_job.cc reads (times of the steady clock in nanoseconds):
//
//   @in_place PID    @known TIME    @terminal TIME    @ended destroyed|CAUSE    @left nothing|...
#ifndef MUSTER_TESTING_CONTRACT_FAULT_RANK_H_
#define MUSTER_TESTING_CONTRACT_FAULT_RANK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "muster/testing/contract/fault_cell.h"

namespace muster::testing {

// What a rank is told by a byte in its fifo.
inline constexpr char kStrike = 'f';  // the victim: fail now; rank 0, where nobody needs it: close
inline constexpr char kGoOn = 'e';    // the others have ended: end, too

std::string FifoOf(const std::string& folder, int rank);

std::vector<std::string> FaultRankCommand(const FaultCell& cell, const std::string& folder);
bool IsFaultRank(int argc, char** argv);
int FaultRankMain(char** argv);

// The steady clock of this host, the same in every process.
int64_t HostNanoseconds();

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FAULT_RANK_H_
