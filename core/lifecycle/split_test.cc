#include "muster/core/lifecycle/split.h"

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/split_mix64.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<SplitChoice> Choices(const std::vector<std::pair<int, int>>& colors_and_keys) {
  std::vector<SplitChoice> choices;
  for (const auto& [color, key] : colors_and_keys) choices.push_back({color, key, {}});
  return choices;
}

TEST(SplitTest, OneColorIsOneGroupOrderedByKeyThenByRank) {
  const auto choices = Choices({{7, 3}, {2, 0}, {7, -1}, {-1, 0}, {7, 3}, {2, 0}});
  EXPECT_THAT(DecideSplit(choices, 0).members, ElementsAre(2, 0, 4));
  EXPECT_THAT(DecideSplit(choices, 4).members, ElementsAre(2, 0, 4));
  EXPECT_THAT(DecideSplit(choices, 1).members, ElementsAre(1, 5));
  EXPECT_THAT(DecideSplit(choices, 3).members, IsEmpty());
}

TEST(SplitTest, TheExtremesOfKeysAreOrderedToo) {
  const auto choices =
      Choices({{0, std::numeric_limits<int>::max()}, {0, std::numeric_limits<int>::min()}});
  EXPECT_THAT(DecideSplit(choices, 0).members, ElementsAre(1, 0));
}

// MPI: "the relative rank order in the new group is by key, ties by rank in the old group"; every
// rank with a color is in one group, and all its members agree on it.
TEST(SplitTest, WhateverRanksChooseTheGroupsAreDisjointOrderedAndTheSameForAllMembers) {
  SplitMix64 random(17);
  for (int round = 0; round < 500; ++round) {
    const int size = 1 + static_cast<int>(random.Below(9));
    std::vector<SplitChoice> choices(size);
    for (SplitChoice& choice : choices) {
      choice.color = static_cast<int>(random.Below(4)) - 1;
      choice.key = static_cast<int>(random.Below(3)) - 1;
    }
    for (int rank = 0; rank < size; ++rank) {
      const std::vector<int> members = DecideSplit(choices, rank).members;
      std::map<std::pair<int, int>, int> expected;  // by key, then rank
      for (int other = 0; other < size && choices[rank].color >= 0; ++other) {
        if (choices[other].color == choices[rank].color) expected[{choices[other].key, other}] = 0;
      }
      ASSERT_EQ(members.size(), expected.size());
      size_t at = 0;
      for (const auto& [key_and_rank, ignored] : expected) {
        ASSERT_EQ(members[at++], key_and_rank.second);
      }
    }
  }
}

TEST(SplitTest, TheNumberIsTheLowestThatIsFreeOnEveryRank) {
  auto choices = Choices({{0, 0}, {0, 0}, {-1, 0}});
  EXPECT_EQ(DecideSplit(choices, 0).number, 1);
  choices[0].taken = {1, 4};
  choices[2].taken = {2};
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(DecideSplit(choices, rank).number, 3);
}

TEST(SplitTest, NamesTellTheNumberOfTheirSplitAndBelongToOneParent) {
  EXPECT_EQ(SplitName("train", 2, 1), "train:split2.color1");
  EXPECT_EQ(SplitNumber("train", "train:split2.color1"), 2);
  EXPECT_EQ(SplitNumber("train", "train:split2.color1:split5.color0"), 2);
  EXPECT_EQ(SplitNumber("train:split2.color1", "train:split2.color1:split5.color0"), 5);
  EXPECT_EQ(SplitNumber("train", "train2:split2.color1"), std::nullopt);
  EXPECT_EQ(SplitNumber("train", "train"), std::nullopt);
}

TEST(SplitTest, AChoiceComesBackAsItWasAndNothingElseIsOne) {
  const absl::StatusOr<SplitChoice> choice =
      SplitChoice::Decode(SplitChoice{3, -7, {1, 2}}.Encode());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->color, 3);
  EXPECT_EQ(choice->key, -7);
  EXPECT_THAT(choice->taken, ElementsAre(1, 2));
  for (const char* text :
       {"", "[]", "{}", R"({"color":1,"key":"a","taken":[]})",
        R"({"color":4294967296,"key":0,"taken":[]})", R"({"color":1,"key":0,"taken":["x"]})"}) {
    EXPECT_EQ(SplitChoice::Decode(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace muster
