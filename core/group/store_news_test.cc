#include "muster/core/group/store_news.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

Entry RecordOf(Revision revision, int64_t generation) {
  GroupRecord record;
  record.generation = generation;
  Entry entry;
  entry.key = GroupRecordKey("train");
  entry.value = record.Encode();
  entry.revision = revision;
  return entry;
}

// A store of which only the watches are used, whose events the test gives by hand.
class WatchedStore final : public Store {
 public:
  void Get(absl::string_view, absl::Time, Callback<Entry>) override {}
  void Set(absl::string_view, absl::string_view, Lifetime, absl::Time,
           Callback<Revision>) override {}
  void CompareAndSet(absl::string_view, Revision, absl::string_view, Lifetime, absl::Time,
                     Callback<CompareAndSetResult>) override {}
  void Delete(absl::string_view, absl::Time, DoneCallback) override {}
  WatchId Watch(absl::string_view prefix, WatchCallback changed) override {
    watches[std::string(prefix)] = std::move(changed);
    return 1;
  }
  void Unwatch(WatchId) override {}
  void GatherAmong(absl::string_view, const Gathering&, absl::string_view, absl::Time,
                   Callback<GatherResult>) override {}
  void Withdraw(absl::string_view, int, absl::string_view) override {}
  void Leave(absl::string_view, absl::Time, DoneCallback) override {}

  void Changed(Entry entry) {
    WatchEvent event;
    event.entry = std::move(entry);
    records()(std::vector<WatchEvent>{std::move(event)});
  }
  WatchCallback& records() { return watches.at(std::string(kGroupKeyPrefix)); }
  WatchCallback& sessions() { return watches.at(std::string(kSessionKeyPrefix)); }

  std::map<std::string, WatchCallback> watches;
};

struct Heard final : StoreNews::Listener {
  void OnRecord(Revision revision, const GroupRecord& record) override {
    records.push_back({revision, record.generation});
  }
  void OnSession(const SessionRecord& session) override { ranks.push_back(session.rank); }
  void OnStoreLost(const absl::Status&) override {}
  void OnAsked(absl::string_view group, Revision) override { asked.emplace_back(group); }

  std::vector<int> ranks;
  std::vector<std::string> asked;
  std::vector<std::pair<Revision, int64_t>> records;
};

class StoreNewsTest : public ::testing::Test {
 protected:
  StoreNewsTest() : news_(std::make_shared<StoreNews>(&store_)) {
    news_->Start([](absl::Status) {});
    store_.sessions()(std::vector<WatchEvent>());
    store_.records()(std::vector<WatchEvent>());
  }
  // What somebody who begins to listen now is told.
  std::vector<std::pair<Revision, int64_t>> Known() {
    Heard heard;
    news_->Subscribe("train", &heard);
    news_->Unsubscribe(&heard);
    return heard.records;
  }

  WatchedStore store_;
  std::shared_ptr<StoreNews> news_;
};

TEST_F(StoreNewsTest, WhatAnAnswerSaidIsKnownToTheNextGroupOfThatNameBeforeTheWatchTellsIt) {
  EXPECT_THAT(Known(), IsEmpty());
  news_->Learn("train", RecordOf(5, 1));
  EXPECT_THAT(Known(), ElementsAre(Pair(5, 1)));
}

TEST_F(StoreNewsTest, WhatAnAnswerSaidIsToldToNobodyBeforeItsTurn) {
  Heard heard;
  news_->Subscribe("train", &heard);
  news_->Learn("train", RecordOf(5, 1));
  EXPECT_THAT(heard.records, IsEmpty()) << "it would overtake what is on its way";
  store_.Changed(RecordOf(5, 1));
  EXPECT_THAT(heard.records, ElementsAre(Pair(5, 1)));
}

WatchEvent SessionOf(int rank, SessionRecord::Liveness liveness) {
  SessionRecord session;
  session.rank = rank;
  session.liveness = liveness;
  WatchEvent event;
  event.entry.key = SessionKey(rank);
  event.entry.value = session.Encode();
  return event;
}

// Each is news once; but a group that begins later is told of the lost alone, who do not come again
// as they were.
TEST_F(StoreNewsTest, WhoLeftBeforeAGroupBeganMayComeAgain) {
  Heard heard;
  news_->Subscribe("train", &heard);
  store_.sessions()(std::vector<WatchEvent>{SessionOf(0, SessionRecord::Liveness::kLive),
                                            SessionOf(1, SessionRecord::Liveness::kLeft),
                                            SessionOf(2, SessionRecord::Liveness::kLost)});
  EXPECT_THAT(heard.ranks, ElementsAre(0, 1, 2));
  heard.ranks.clear();
  news_->TellSessions(&heard);
  EXPECT_THAT(heard.ranks, ElementsAre(0, 2));
}

TEST_F(StoreNewsTest, AQuestionGoesToTheGroupsOfThatNameAlone) {
  Heard train, training;
  news_->Subscribe("train", &train);
  news_->Subscribe("training", &training);
  WatchEvent event;
  event.entry.key = "late/train/3";
  store_.watches.at("late/")(std::vector<WatchEvent>{event});
  event.kind = WatchEvent::Kind::kDelete;
  store_.watches.at("late/")(std::vector<WatchEvent>{event});
  EXPECT_THAT(train.asked, ElementsAre("train/3"));
  EXPECT_THAT(training.asked, IsEmpty());
}

TEST_F(StoreNewsTest, OlderNewsNeverTakesThePlaceOfNewer) {
  news_->Learn("train", RecordOf(5, 2));
  news_->Learn("train", RecordOf(4, 1));
  EXPECT_THAT(Known(), ElementsAre(Pair(5, 2)));
  store_.Changed(RecordOf(3, 1));
  EXPECT_THAT(Known(), ElementsAre(Pair(5, 2))) << "the watch is behind the answer";
  store_.Changed(RecordOf(6, 3));
  EXPECT_THAT(Known(), ElementsAre(Pair(6, 3)));
  news_->Learn("train", RecordOf(5, 2));
  EXPECT_THAT(Known(), ElementsAre(Pair(6, 3)));
}

TEST_F(StoreNewsTest, WhatIsNoRecordIsNotLearned) {
  news_->Learn("train", RecordOf(5, 1));
  Entry damaged = RecordOf(6, 2);
  damaged.value = "{";
  news_->Learn("train", damaged);
  EXPECT_THAT(Known(), ElementsAre(Pair(5, 1)));
  Entry absent;  // the answer to a compare-and-set of a key that is not there
  news_->Learn("other", absent);
  Heard heard;
  news_->Subscribe("other", &heard);
  news_->Unsubscribe(&heard);
  EXPECT_THAT(heard.records, IsEmpty());
}

}  // namespace
}  // namespace muster
