#include "muster/trainer/agreement.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/in_process_collectives.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// What each of `size` ranks gets, when rank r says `facts(r)` and `here(r)`.
template <class Facts, class Here>
std::vector<absl::Status> AgreeOn(int size, Facts facts, Here here) {
  return RunRanks(size, [&](Collectives& ranks) {
    absl::Status result = Agree(ranks, here(ranks.rank()), facts(ranks.rank()));
    // The group is still good: all ranks came out of the same operation.
    double one = 1;
    EXPECT_TRUE(ranks.AllReduce(Buffer::Of(one), ReduceOp::kSum).ok());
    EXPECT_EQ(one, ranks.size());
    return result;
  });
}

const auto kFine = [](int) { return absl::OkStatus(); };

TEST(AgreementTest, EqualFactsAreAgreed) {
  for (int size : {1, 2, 4}) {
    for (const absl::Status& status : AgreeOn(
             size,
             [](int) {
               return std::vector<Fact>{Fact::Word("stage", "validate"), Fact::Integer("size", -1),
                                        Fact::Real("rate", 0.1)};
             },
             kFine)) {
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

// PL#9851: unequal numbers of batches made ranks wait for ever.
TEST(AgreementTest, EveryRankLearnsWhichRankDiffersAndInWhat) {
  const auto statuses = AgreeOn(
      3,
      [](int rank) {
        return std::vector<Fact>{Fact::Integer("samples", 100),
                                 Fact::Integer("batches", rank == 2 ? 3 : 4)};
      },
      kFine);
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, statuses[0]);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("rank 2 has batches 3 and rank 0 has 4"));
  }
}

TEST(AgreementTest, ValuesAreShownAsWhatTheyAre) {
  auto message = [](auto fact) {
    return std::string(
        AgreeOn(2, [&](int rank) { return std::vector<Fact>{fact(rank)}; }, kFine)[0].message());
  };
  EXPECT_THAT(message([](int r) { return Fact::Real("learning_rate", r == 0 ? 0.5 : 0.25); }),
              HasSubstr("learning_rate 0.25 and rank 0 has 0.5"));
  EXPECT_THAT(message([](int r) { return Fact::Word("stage", r == 0 ? "validate" : "fit"); }),
              HasSubstr("stage fit and rank 0 has validate"));
}

TEST(AgreementTest, RanksInDifferentStagesUnderstandEachOther) {
  const auto statuses = AgreeOn(
      2,
      [](int rank) {
        std::vector<Fact> facts = {Fact::Word("stage", rank == 0 ? "fit" : "test")};
        if (rank == 0) facts.insert(facts.end(), 5, Fact::Integer("more", 1));
        return facts;
      },
      kFine);
  EXPECT_THAT(statuses[1].message(), HasSubstr("rank 1 has stage test and rank 0 has fit"));
}

// llm-foundry#749: one rank failed to prepare its data, the others waited.
TEST(AgreementTest, WhatOneRankFoundWrongIsEveryRanksError) {
  const auto statuses = AgreeOn(
      3, [](int) { return std::vector<Fact>{Fact::Integer("samples", 1)}; },
      [](int rank) {
        return rank == 1 ? absl::OutOfRangeError("the data set is empty") : absl::OkStatus();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status, absl::OutOfRangeError("rank 1: the data set is empty"));
  }
}

TEST(AgreementTest, ALongErrorIsCutAndNotLost) {
  const auto statuses = AgreeOn(
      2, [](int) { return std::vector<Fact>{}; },
      [](int) { return absl::DataLossError(std::string(5000, 'x')); });
  EXPECT_EQ(statuses[0], statuses[1]);
  EXPECT_THAT(statuses[0].message(), ::testing::StartsWith("xxxx"));
}

TEST(AgreementTest, AFaultOfEveryRankIsUnderNoRanksNumber) {
  const auto agreed = [](bool same) {
    return AgreeOn(
        3, [](int) { return std::vector<Fact>{}; },
        [same](int rank) {
          return absl::InvalidArgumentError(same || rank < 2 ? "max_epochs is 0" : "no data");
        });
  };
  for (const absl::Status& status : agreed(true)) {
    EXPECT_EQ(status, absl::InvalidArgumentError("max_epochs is 0"));
  }
  for (const absl::Status& status : agreed(false)) {
    EXPECT_EQ(status, absl::InvalidArgumentError("rank 0: max_epochs is 0"));
  }
}

TEST(AgreementTest, AloneAnErrorHasNoRank) {
  const auto statuses = AgreeOn(
      1, [](int) { return std::vector<Fact>{}; },
      [](int) { return absl::InvalidArgumentError("max_epochs is 0"); });
  EXPECT_EQ(statuses[0], absl::InvalidArgumentError("max_epochs is 0"));
}

}  // namespace
}  // namespace muster
