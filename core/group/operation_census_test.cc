#include "muster/core/group/operation_census.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/manual_executor.h"
#include "muster/core/store/memory_store.h"

namespace muster {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(WhoHasNotEnteredTest, NamesTheRanksThatAreBehindAndWhereTheFirstIs) {
  const OperationPlace in{41, "all_reduce #41"};
  EXPECT_EQ(WhoHasNotEntered(41, {in, in, {40, ""}}, {}),
            "rank 2 has not entered it (it is after #40)");
  EXPECT_EQ(WhoHasNotEntered(41, {in, {40, "barrier #40"}, {39, ""}}, {}),
            "ranks 1, 2 have not entered it (rank 1 is in barrier #40)");
  EXPECT_EQ(WhoHasNotEntered(41, {in, in, {42, "barrier #42"}}, {}), "every rank has entered it");
  EXPECT_EQ(WhoHasNotEntered(41, {in, {40, ""}}, {3, 7}),
            "rank 7 has not entered it (it is after #40)")
      << "messages speak of ranks of the job";
}

TEST(OperationPlaceTest, ComesBackAsItWasWrittenAndSurvivesAnything) {
  const OperationPlace place =
      OperationPlace::Decode(OperationPlace{41, "all_reduce #41"}.Encode());
  EXPECT_EQ(place.issued, 41);
  EXPECT_EQ(place.inside, "all_reduce #41");
  for (const char* text : {"", " ", "x", "99999999999999999999 x", "-"}) {
    EXPECT_EQ(OperationPlace::Decode(text).issued, 0) << text;
  }
}

constexpr absl::Duration kWindow = absl::Milliseconds(200);

class OperationCensusTest : public ::testing::Test {
 protected:
  OperationCensusTest() : server_({2}) {
    for (int rank = 0; rank < 2; ++rank) {
      SessionInfo info;
      info.rank = rank;
      info.world_size = 2;
      info.incarnation = 100 + rank;
      absl::StatusOr<std::unique_ptr<MemoryStore>> store = server_.Connect(info, &executor_);
      EXPECT_TRUE(store.ok()) << store.status();
      stores_.push_back(*std::move(store));
      OperationCensus::Options options;
      options.store = stores_.back().get();
      options.group = "train/1";
      options.among = {rank, 2, {}, ""};
      options.window = kWindow;
      options.now = [this] { return executor_.Now(); };
      options.place = [this, rank] { return places_[rank]; };
      censuses_.push_back(std::make_shared<OperationCensus>(std::move(options)));
    }
  }

  void Hear(int rank) {
    stores_[rank]->Watch(kLateKeyPrefix, [census = censuses_[rank]](auto events) {
      if (!events.ok()) return;
      for (const WatchEvent& event : *events) {
        if (event.kind == WatchEvent::Kind::kPut) census->OnAsked(event.entry.revision);
      }
    });
    executor_.RunUntilIdle();
  }

  void Ask(int rank) {
    censuses_[rank]->Ask([this](auto places) { answers_.push_back(std::move(places)); });
  }

  ManualExecutor executor_;
  MemoryStoreServer server_;
  std::vector<OperationPlace> places_ = {{41, "all_reduce #41"}, {40, ""}};
  std::vector<std::unique_ptr<MemoryStore>> stores_;
  std::vector<std::shared_ptr<OperationCensus>> censuses_;
  std::vector<absl::StatusOr<std::vector<OperationPlace>>> answers_;
};

TEST_F(OperationCensusTest, AllWhoAskHearWhereEveryRankIsAndNothingStaysInTheStore) {
  Hear(0);
  Hear(1);
  for (int round = 1; round <= 2; ++round) {
    Ask(0);
    Ask(1);
    Ask(1);
    executor_.RunUntilIdle();
    ASSERT_THAT(answers_, SizeIs(3 * round));
    for (const auto& places : answers_) {
      ASSERT_TRUE(places.ok()) << places.status();
      ASSERT_THAT(*places, SizeIs(2));
      EXPECT_EQ((*places)[0].inside, "all_reduce #41");
      EXPECT_EQ((*places)[1].issued, 40);
    }
    EXPECT_THAT(server_.Entries("late/"), IsEmpty());
  }
}

TEST_F(OperationCensusTest, AQuestionThatTheStoreRefusesIsAnsweredWithThatAndTheNextOneIsAsked) {
  OperationCensus::Options options;
  options.store = stores_[0].get();
  options.group = std::string(1 << 20, 'g');  // no key may be as long
  options.among = {0, 2, {}, ""};
  options.window = kWindow;
  options.now = [this] { return executor_.Now(); };
  options.place = [this] { return places_[0]; };
  censuses_[0] = std::make_shared<OperationCensus>(std::move(options));
  for (size_t round = 1; round <= 2; ++round) {
    Ask(0);
    executor_.RunUntilIdle();
    ASSERT_THAT(answers_, SizeIs(round));
    EXPECT_FALSE(answers_.back().ok());
  }
}

TEST_F(OperationCensusTest, ARankThatDoesNotAnswerInTheWindowIsNamed) {
  Hear(0);  // rank 1 is stopped, say
  Ask(0);
  executor_.AdvanceBy(kWindow);
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0].status().message(), "rank 1 of 2 did not answer");
  EXPECT_THAT(server_.Entries("late/"), IsEmpty());
}

TEST_F(OperationCensusTest, NobodyIsAnsweredOnceItIsStopped) {
  Hear(0);
  Hear(1);
  Ask(0);
  censuses_[0]->Stop();
  executor_.RunUntilIdle();
  EXPECT_THAT(answers_, IsEmpty());
}

}  // namespace
}  // namespace muster
