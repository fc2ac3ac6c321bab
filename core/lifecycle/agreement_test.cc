#include "muster/core/lifecycle/agreement.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Introduction Rank(int rank, const std::string& backend = "gloo") {
  Introduction introduction;
  introduction.incarnation = 100 + rank;
  introduction.host = "a";
  introduction.pid = 7 + rank;
  introduction.identity = {{"backend", backend}, {"members", "0,1,2"}};
  introduction.offers = {"shm", "gloo"};
  return introduction;
}

std::vector<Introduction> Ranks(int size, const std::string& backend = "gloo") {
  std::vector<Introduction> introductions;
  for (int rank = 0; rank < size; ++rank) introductions.push_back(Rank(rank, backend));
  return introductions;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(IntroductionTest, AnIntroductionComesBackAsItWasWritten) {
  Introduction introduction = Rank(3);
  introduction.incarnation = std::numeric_limits<uint64_t>::max();
  introduction.identity["a \"quoted\"\nfield"] = "\t";
  introduction.known_generation = 12;
  introduction.refusal = absl::NotFoundError("no backend 'nccl'");
  const absl::StatusOr<Introduction> decoded = Introduction::Decode(introduction.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->incarnation, introduction.incarnation);
  EXPECT_EQ(decoded->host, introduction.host);
  EXPECT_EQ(decoded->pid, introduction.pid);
  EXPECT_EQ(decoded->identity, introduction.identity);
  EXPECT_EQ(decoded->offers, introduction.offers);
  EXPECT_EQ(decoded->known_generation, 12);
  EXPECT_EQ(decoded->refusal, introduction.refusal);
}

TEST(IntroductionTest, EveryTruncationIsDataLoss) {
  const std::string text = Rank(1).Encode();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(Introduction::Decode(text.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(IntroductionTest, GarbageIsDataLossAndTheMessageSaysWhatIsWrong) {
  const std::string good = R"("host":"a","pid":1,"identity":{},"offers":[],"known_generation":0})";
  const struct {
    std::string text;
    const char* message;
  } kCases[] = {
      {"\x01\x02", "not a JSON object"},
      {absl::StrCat(R"({"incarnation":-1,)", good), "'incarnation' is not an unsigned integer"},
      {R"({"incarnation":1,"host":7})", "'host' is not a string"},
      {R"({"incarnation":1,"host":"a","pid":1,"identity":{"backend":7}})",
       "a field of the identity is not a string"},
      {R"({"incarnation":1,"host":"a","pid":1,"identity":[]})", "'identity' is not an object"},
      {R"({"incarnation":1,"host":"a","pid":1,"identity":{},"offers":[1]})",
       "an offer is not a string"},
      {R"({"incarnation":1,"host":"a","pid":1,"identity":{},"offers":[],"known_generation":-4})",
       "'known_generation' is -4"},
      // The next generation must be countable.
      {R"({"incarnation":1,"host":"a","pid":1,"identity":{},"offers":[],)"
       R"("known_generation":9223372036854775807})",
       "'known_generation' is 9223372036854775807"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = Introduction::Decode(test.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << test.text;
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("malformed introduction"), HasSubstr(test.message)));
  }
}

TEST(IntroductionTest, AnyDamageIsSurvived) {
  Introduction introduction = Rank(3);
  introduction.refusal = absl::NotFoundError("no backend 'nccl'");
  const std::string text = introduction.Encode();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = text;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
      if (random() % 2 == 0) damaged.erase(random() % damaged.size(), 1);
    }
    const absl::StatusOr<Introduction> decoded = Introduction::Decode(damaged);
    if (!decoded.ok()) {
      EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss);
    } else {
      EXPECT_TRUE(Introduction::Decode(decoded->Encode()).ok());
    }
  }
}

TEST(IntroductionTest, TextThatIsNotUtf8DoesNotKeepTheRanksFromMeeting) {
  std::vector<Introduction> introductions = Ranks(2);
  for (Introduction& introduction : introductions) {
    introduction.host = "h\xff";
    introduction.identity["options"] = "\xc3(";
    const absl::StatusOr<Introduction> decoded = Introduction::Decode(introduction.Encode());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    introduction = *decoded;
  }
  EXPECT_TRUE(Agree("train", introductions).ok());
}

TEST(AgreeTest, EqualIntroductionsAgreeAndEveryRankComputesTheSame) {
  const absl::StatusOr<Agreement> agreement = Agree("train", Ranks(3));
  ASSERT_TRUE(agreement.ok()) << agreement.status();
  EXPECT_EQ(agreement->generation, 1);
  EXPECT_EQ(agreement->backend, "gloo");
  EXPECT_THAT(agreement->incarnations, ElementsAre(100, 101, 102));
}

TEST(AgreeTest, AWorldOfOneAgreesWithItself) { EXPECT_TRUE(Agree("train", Ranks(1)).ok()); }

// L8: whoever remembers the most decides, so that no generation comes twice.
TEST(AgreeTest, TheGenerationIsOneMoreThanTheHighestThatAnyRankKnows) {
  std::vector<Introduction> introductions = Ranks(3);
  introductions[0].known_generation = 2;
  introductions[1].known_generation = 9;
  EXPECT_EQ(Agree("train", introductions)->generation, 10);
}

TEST(AgreeTest, AutoTakesTheFirstOfRankZeroThatEveryRankOffers) {
  std::vector<Introduction> introductions = Ranks(3, "auto");
  introductions[0].offers = {"nccl", "shm", "gloo"};
  introductions[1].offers = {"gloo", "shm"};
  introductions[2].offers = {"gloo", "shm", "nccl"};
  EXPECT_EQ(Agree("train", introductions)->backend, "shm");
}

TEST(AgreeTest, AutoWithoutACommonBackendSaysWhatEachRankOffers) {
  std::vector<Introduction> introductions = Ranks(3, "auto");
  introductions[1].offers = {"reference"};
  introductions[2].offers = {};
  const absl::Status status = Agree("train", introductions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("'train'"), HasSubstr("rank 0 offers shm, gloo"),
                    HasSubstr("rank 1 offers reference"), HasSubstr("rank 2 offers none"),
                    HasSubstr("link the same backends")));
}

TEST(AgreeTest, ANamedBackendIsTakenEvenWhereItIsNotOffered) {
  std::vector<Introduction> introductions = Ranks(2, "reference");
  EXPECT_EQ(Agree("train", introductions)->backend, "reference");
}

// composer#291, PL#8080: the ranks want different groups under one name.
TEST(AgreeTest, ADisagreementNamesEachFieldTheValuesAndTheRanks) {
  std::vector<Introduction> introductions = Ranks(6);
  introductions[2].identity["backend"] = "reference";
  introductions[5].identity["backend"] = "reference";
  introductions[4].identity["device"] = "cuda:0";
  const absl::Status status = Agree("train", introductions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Message(status),
      AllOf(HasSubstr("'train'"),
            HasSubstr("backend is 'gloo' on ranks 0, 1, 3, 4 and 'reference' on ranks 2, 5"),
            HasSubstr("device is not set on ranks 0, 1, 2, 3, 5 and 'cuda:0' on rank 4"),
            Not(HasSubstr("members")), HasSubstr("use two names")));
}

TEST(AgreeTest, ARefusalIsEverybodysErrorWithItsCodeAndRank) {
  std::vector<Introduction> introductions = Ranks(3);
  introductions[2].refusal = absl::NotFoundError("no backend 'nccl' is linked in; there are: gloo");
  introductions[2].identity["backend"] = "nccl";
  const absl::Status status = Agree("train", introductions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "rank 2: no backend 'nccl' is linked in; there are: gloo");
}

TEST(AgreeTest, ARefusalOfEveryRankIsUnderNoRanksNumber) {
  std::vector<Introduction> introductions = Ranks(3);
  const absl::Status refusal = absl::NotFoundError("no backend 'glooo' is linked in");
  for (Introduction& introduction : introductions) introduction.refusal = refusal;
  EXPECT_EQ(Agree("train", introductions).status(), refusal);
  introductions[1].refusal = absl::NotFoundError("no backend 'glooo' at all");
  EXPECT_EQ(Message(Agree("train", introductions).status()),
            "rank 0: no backend 'glooo' is linked in");
}

TEST(AgreeTest, AMeetingOfNobodyOrWithoutABackendIsAnErrorAndNoCrash) {
  EXPECT_EQ(Agree("train", {}).status().code(), absl::StatusCode::kInternal);
  std::vector<Introduction> introductions = Ranks(2);
  for (Introduction& introduction : introductions) introduction.identity.clear();
  EXPECT_EQ(Agree("train", introductions).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace muster
