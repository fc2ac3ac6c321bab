// A rank that does as it is told, for tests of the launcher: the test's own binary, started again.
//
//   job.command = TestRankCommand({"0:print ready", "0:wait", "1:exit 3"});
//   int main(...) { if (IsTestRank(argc, argv)) return TestRankMain(argc, argv); ... }
//
// Each argument is "<rank>:<step>", with * for every rank; a rank performs its steps in order and
// then exits with 0.
//
//   print TEXT    a line on stdout              write TEXT   the same without the end of the line
//   error TEXT    a line on stderr              lines N      N numbered lines of 100 bytes
//   error_lines N the same on stderr
//   exit N                                      die N        ends by signal N, without a core file
//   wait          until a signal ends it        stop         SIGSTOP
//   ignore N      ignores signal N from now on  on N CODE    exits with CODE when signal N comes
//   variable V    prints V=value or "V unset"   mask         prints blocked and ignored signals
//   fds           prints its open descriptors   input        prints how many bytes stdin has
//   daemon        a grandchild that has left the session and keeps the pipes open, waiting
//   child         a child in the rank's own process group, waiting
//   brief         a grandchild that ends 50 ms after it was orphaned
//   pid           prints its process id         cmdline      prints its arguments
//   environment   prints all its variables
//   file V        prints the mode of the file that variable V names, and the content
#ifndef MUSTER_CORE_LAUNCH_TEST_RANK_H_
#define MUSTER_CORE_LAUNCH_TEST_RANK_H_

#include <string>
#include <vector>

namespace muster {

std::vector<std::string> TestRankCommand(std::vector<std::string> steps);
bool IsTestRank(int argc, char** argv);
int TestRankMain(int argc, char** argv);

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_TEST_RANK_H_
