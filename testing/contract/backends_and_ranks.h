// Fixture of a test of the contract on real processes: each backend, jobs of two and of four.
#ifndef MUSTER_TESTING_CONTRACT_BACKENDS_AND_RANKS_H_
#define MUSTER_TESTING_CONTRACT_BACKENDS_AND_RANKS_H_

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "muster/testing/contract/forked_job.h"

namespace muster::testing {

class BackendsAndRanksTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  static std::string backend() { return std::get<0>(GetParam()); }
  static int ranks() { return std::get<1>(GetParam()); }
  ForkedJob& job() { return job_; }

 private:
  ForkedJob job_{ranks(), backend()};
};

inline std::string NameOfBackendAndRanks(
    const ::testing::TestParamInfo<BackendsAndRanksTest::ParamType>& info) {
  return absl::StrCat(std::get<0>(info.param), "_", std::get<1>(info.param), "ranks");
}

// At the end of its test, which links both backends.
#define INSTANTIATE_BACKENDS_AND_RANKS(Suite)                                              \
  INSTANTIATE_TEST_SUITE_P(                                                                \
      All, Suite,                                                                          \
      ::testing::Combine(::testing::Values("gloo", "reference"), ::testing::Values(2, 4)), \
      ::muster::testing::NameOfBackendAndRanks)

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_BACKENDS_AND_RANKS_H_
