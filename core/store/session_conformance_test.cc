// Conformance of every Store: how sessions begin and end.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_conformance.h"
#include "muster/core/store/store_test_util.h"

namespace muster::store_testing {
namespace {

using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

TEST_P(StoreConformanceTest, EverySessionIsPublishedAndItsEndSaysWhetherItLeftOrWasLost) {
  auto stores = ConnectAll(3);
  WatchLog log;
  stores[0]->Watch(kSessionKeyPrefix, log.Callback());
  const SessionRecord live = log.AwaitSession(1, Liveness::kLive);
  EXPECT_EQ(live.Who(), "rank 1 (host a, pid 101)");
  EXPECT_EQ(live.incarnation, Info(1).incarnation);
  EXPECT_TRUE(Leave(*stores[1], "done with it").ok());
  EXPECT_EQ(log.AwaitSession(1, Liveness::kLeft).WhatHappened(),
            "rank 1 (host a, pid 101) left: done with it");
  harness_->Kill(2);
  EXPECT_THAT(log.AwaitSession(2, Liveness::kLost).WhatHappened(),
              HasSubstr("rank 2 (host a, pid 102) was lost: its connection"));
}

TEST_P(StoreConformanceTest, SessionKeysVanishWithWhoSetThemLastHoweverItEnds) {
  auto stores = ConnectAll(4);
  WatchLog log;
  stores[0]->Watch("s/", log.Callback());
  ASSERT_TRUE(Set(*stores[1], "s/left", "1", Lifetime::kSession).ok());
  ASSERT_TRUE(Set(*stores[1], "s/stays", "1", Lifetime::kPersistent).ok());
  ASSERT_TRUE(Set(*stores[1], "s/taken", "1", Lifetime::kSession).ok());
  ASSERT_TRUE(Set(*stores[0], "s/taken", "0", Lifetime::kSession).ok());
  ASSERT_TRUE(Set(*stores[1], "s/kept", "1", Lifetime::kSession).ok());
  ASSERT_TRUE(Set(*stores[1], "s/kept", "1", Lifetime::kPersistent).ok());
  ASSERT_TRUE(CompareAndSet(*stores[2], "s/killed", 0, "2", Lifetime::kSession).ok());
  ASSERT_TRUE(Set(*stores[3], "s/declared", "3", Lifetime::kSession).ok());
  EXPECT_TRUE(Leave(*stores[1]).ok());
  harness_->Kill(2);
  harness_->DeclareLost(3, "killed by signal 9");
  for (const char* key : {"s/left", "s/killed", "s/declared"}) {
    log.Await([&](const WatchLog::State& state) {
      for (const WatchEvent& event : state.events) {
        if (event.kind == WatchEvent::Kind::kDelete && event.entry.key == key) return true;
      }
      return false;
    });
    EXPECT_EQ(Get(*stores[0], key).status().code(), absl::StatusCode::kNotFound) << key;
  }
  for (const char* key : {"s/stays", "s/taken", "s/kept"}) {
    EXPECT_TRUE(Get(*stores[0], key).ok()) << key;
  }
}

TEST_P(StoreConformanceTest, WhoSeesASessionsEndHasSeenEverythingItDidBefore) {
  auto stores = ConnectAll(2);
  WatchLog log;
  stores[0]->Watch("", log.Callback());
  for (int i = 0; i < 50; ++i) {
    stores[1]->Set("k", absl::StrCat(i), Lifetime::kPersistent, Soon(), [](auto) {});
  }
  EXPECT_TRUE(Leave(*stores[1]).ok());
  log.AwaitSession(1, Liveness::kLeft);
  const auto events = log.events();
  int last = -1;
  for (const WatchEvent& event : events) {
    if (event.entry.key == "k") {
      ASSERT_TRUE(absl::SimpleAtoi(event.entry.value, &last));
    }
    const auto record = SessionRecord::Decode(event.entry.value);
    if (record.ok() && record->rank == 1 && record->liveness == Liveness::kLeft) {
      EXPECT_EQ(last, 49);
    }
  }
}

TEST_P(StoreConformanceTest, AfterLeaveRequestsAreRefusedAndLeaveIsIdempotent) {
  auto store = Connect(0);
  WatchLog log;
  store->Watch("k", log.Callback());
  auto gather = StartGather(*store, "g", 0, 2, "");
  EXPECT_TRUE(Leave(*store, "finished").ok());
  EXPECT_TRUE(Leave(*store).ok());
  EXPECT_FALSE(gather.Get().ok());
  EXPECT_EQ(log.AwaitEnd().code(), absl::StatusCode::kFailedPrecondition);
  const auto refused = Set(*store, "k", "v");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("finished"));
  WatchLog late;
  store->Watch("k", late.Callback());
  EXPECT_EQ(late.AwaitEnd().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(StoreConformanceTest, ASessionDeclaredLostIsFencedWithTheReason) {
  auto stores = ConnectAll(2);
  WatchLog sessions;
  stores[0]->Watch(kSessionKeyPrefix, sessions.Callback());
  WatchLog own;
  stores[1]->Watch("k", own.Callback());
  own.AwaitSnapshot();
  auto gather = StartGather(*stores[1], "g", 1, 2, "");
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  harness_->DeclareLost(1, "killed by signal 9");
  EXPECT_EQ(sessions.AwaitSession(1, Liveness::kLost).WhatHappened(),
            "rank 1 (host a, pid 101) was lost: killed by signal 9");
  const auto refused = Set(*stores[1], "k", "v");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("killed by signal 9"));
  EXPECT_FALSE(gather.Get().ok());
  EXPECT_EQ(own.AwaitEnd().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get(*stores[0], "k").status().code(), absl::StatusCode::kNotFound);

  // It does not come back as it was; a new process takes its place at once.
  stores[1].reset();
  const auto again = harness_->Connect(Info(1, 1));
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("killed by signal 9"));
  auto successor = Connect(1, 2);
  ASSERT_NE(successor, nullptr);
  EXPECT_TRUE(Set(*successor, "k", "v").ok());
}

TEST_P(StoreConformanceTest, TheFirstCauseOfALossStays) {
  auto stores = ConnectAll(2);
  WatchLog log;
  stores[0]->Watch(kSessionKeyPrefix, log.Callback());
  harness_->DeclareLost(1, "killed by signal 9");
  harness_->DeclareLost(1, "something else");
  harness_->Kill(1);
  stores[1].reset();
  EXPECT_EQ(log.AwaitSession(1, Liveness::kLost).reason, "killed by signal 9");
  const auto record = SessionRecord::Decode(Get(*stores[0], SessionKey(1))->value);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->reason, "killed by signal 9");
}

TEST_P(StoreConformanceTest, ARankThatDiedBeforeItCameIsPublishedAsLost) {
  auto store = Connect(0);
  harness_->DeclareLost(3, "exit code 1");
  WatchLog log;
  store->Watch(kSessionKeyPrefix, log.Callback());
  EXPECT_EQ(log.AwaitSession(3, Liveness::kLost).WhatHappened(), "rank 3 was lost: exit code 1");
  EXPECT_NE(Connect(3), nullptr);  // a restarted one may come
}

TEST_P(StoreConformanceTest, ASecondLiveSessionOfARankIsRefusedNamingBoth) {
  auto store = Connect(1);
  const auto second = harness_->Connect(Info(1, 2));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(
      second.status().message(),
      "rank 1 is already here: host a, pid 101; this is host a, pid 201: start each rank once");
  EXPECT_TRUE(Set(*store, "k", "v").ok());  // the first goes on
}

TEST_P(StoreConformanceTest, AnotherWorldSizeAndARankOutsideAreRefusedWithTheValues) {
  SessionInfo info = Info(0);
  info.world_size = 8;
  auto refused = harness_->Connect(info);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("a world of 8 ranks"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("serves one of 4"));
  for (const int rank : {-1, 4}) {
    info = Info(0);
    info.rank = rank;
    refused = harness_->Connect(info);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(absl::StrCat("rank ", rank)));
  }
}

TEST_P(StoreConformanceTest, ARankMayLeaveAndComeAgainAtOnceAnyNumberOfTimes) {
  auto other = Connect(0);
  for (int cycle = 0; cycle < 20; ++cycle) {
    auto store = Connect(1);  // the same process: the same incarnation
    ASSERT_NE(store, nullptr) << cycle;
    ASSERT_TRUE(Set(*store, "k", absl::StrCat(cycle), Lifetime::kSession).ok());
    if (cycle % 2 == 0) {
      EXPECT_TRUE(Leave(*store).ok());
    }
  }
}

TEST_P(StoreConformanceTest, ADestroyedClientLeavesAndWhatWaitedIsAnsweredOnce) {
  auto stores = ConnectAll(2);
  WatchLog log;
  stores[0]->Watch(kSessionKeyPrefix, log.Callback());
  auto gather = StartGather(*stores[1], "g", 1, 2, "");
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  stores[1].reset();
  EXPECT_FALSE(gather.Get().ok());
  log.AwaitSession(1, Liveness::kLeft);
  EXPECT_EQ(gather.calls(), 1);
}

// The answer to Get comes while Leave is on its way: it is no answer to Leave.
TEST_P(StoreConformanceTest, WhoLeavesAndGoesAtOnceHasLeftWhateverWasAskedBefore) {
  auto observer = Connect(0);
  for (int cycle = 0; cycle < 50; ++cycle) {
    auto store = Connect(1);
    ASSERT_NE(store, nullptr) << cycle;
    PromisedOr<Entry> asked;
    store->Get("k", Soon(), asked.Callback());
    store->Leave("done", Soon(), [](const absl::Status&) {});
    store.reset();
    WatchLog log;
    observer->Watch(kSessionKeyPrefix, log.Callback());
    EXPECT_EQ(log.AwaitSession(1, Liveness::kLeft).WhatHappened(),
              "rank 1 (host a, pid 101) left: done");
  }
}

MUSTER_INSTANTIATE_FOR_ALL_STORES();

}  // namespace
}  // namespace muster::store_testing
