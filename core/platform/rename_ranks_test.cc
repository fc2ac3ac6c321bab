#include "muster/core/platform/rename_ranks.h"

#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

const std::vector<int>& Names() {
  static const auto* const names = new std::vector<int>{4, 7, 2, 9};
  return *names;
}

TEST(RenameRanksTest, EveryFormInWhichMessagesNameRanksGetsTheOtherNumbers) {
  const struct {
    const char* message;
    const char* renamed;
  } kCases[] = {
      {"rank 0: boom", "rank 4: boom"},
      {"lost contact with rank 3 (seen by rank 1)", "lost contact with rank 9 (seen by rank 7)"},
      {"ranks 0, 1 and 3 called nothing", "ranks 4, 7 and 9 called nothing"},
      {"ranks 0, 2", "ranks 4, 2"},
      {"ranks 0 to 2 of 4", "ranks 4, 7, 2 of 4"},
      {"ranks 0, 1 and 3 more", "ranks 4, 7 and 3 more"},
      {"rank 1, 2 elements", "rank 7, 2 elements"},
      {"all_reduce on rank 0 and broadcast on rank 1",
       "all_reduce on rank 4 and broadcast on rank 7"},
      {"rank 12 is not one of ours", "rank 12 is not one of ours"},
      {"nrank 1, ranked 1, rank1, rank 1st", "nrank 1, ranked 1, rank1, rank 1st"},
      {"rank", "rank"},
      {"ranks ", "ranks "},
      {"", ""},
  };
  for (const auto& one : kCases) EXPECT_EQ(RenameRanks(one.message, Names()), one.renamed);
}

TEST(RenameRanksTest, WithoutNamesNothingChanges) {
  EXPECT_EQ(RenameRanks("rank 1 and ranks 0 to 3", {}), "rank 1 and ranks 0 to 3");
}

}  // namespace
}  // namespace muster
