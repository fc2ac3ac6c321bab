// One cell of the fault matrix on real processes: a job of N ranks under the launcher, the fault
// once every rank is in its place, and what was seen of it.
//
//   int main(...) {
//     if (std::optional<int> code = FaultProcessMain(argc, argv)) return *code;
//     ...
//     std::vector<FaultRow> rows = RunFaultCells(cells, 4);
//   }
#ifndef MUSTER_TESTING_CONTRACT_FAULT_JOB_H_
#define MUSTER_TESTING_CONTRACT_FAULT_JOB_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/testing/contract/fault_cell.h"
#include "muster/testing/contract/fault_row.h"

namespace muster::testing {

// A row for each cell, in their order, `at_once` of them at a time, each in a process of its own.
// `done` is told of each as it comes.
std::vector<FaultRow> RunFaultCells(const std::vector<FaultCell>& cells, int at_once,
                                    const std::function<void(const FaultRow&)>& done = nullptr);

// In a process that RunFaultCells or its job started: does what it was started for. To be called
// first in main.
std::optional<int> FaultProcessMain(int argc, char** argv);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_FAULT_JOB_H_
