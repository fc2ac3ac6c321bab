// What every Store promises (store.h), run against each kind of store.

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_harness.h"
#include "muster/core/store/store_test_util.h"

namespace muster::store_testing {
namespace {

using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

constexpr int kWorldSize = 4;

struct Kind {
  std::string name;
  std::unique_ptr<StoreHarness> (*make)(int world_size);
};

SessionInfo Info(int rank, uint64_t incarnation = 1) {
  SessionInfo info;
  info.rank = rank;
  info.world_size = kWorldSize;
  info.host = "a";
  info.pid = 100 * static_cast<int64_t>(incarnation) + rank;
  info.incarnation = incarnation * 1000 + rank;
  return info;
}

class StoreConformanceTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { harness_ = GetParam().make(kWorldSize); }

  std::unique_ptr<Store> Connect(int rank, uint64_t incarnation = 1) {
    auto store = harness_->Connect(Info(rank, incarnation));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  std::vector<std::unique_ptr<Store>> ConnectAll(int count = kWorldSize) {
    std::vector<std::unique_ptr<Store>> stores;
    for (int rank = 0; rank < count; ++rank) stores.push_back(Connect(rank));
    return stores;
  }

  std::unique_ptr<StoreHarness> harness_;
};

// --- Keys

TEST_P(StoreConformanceTest, EveryRankReadsWhatOneWroteWithItsRevision) {
  auto stores = ConnectAll(2);
  EXPECT_EQ(Get(*stores[1], "k").status().code(), absl::StatusCode::kNotFound);
  const std::string value("any\0bytes\xff", 10);
  const auto first = Set(*stores[0], "k", value);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto read = Get(*stores[1], "k");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key, "k");
  EXPECT_EQ(read->value, value);
  EXPECT_EQ(read->revision, *first);
  const auto other = Set(*stores[1], "other", "");
  ASSERT_TRUE(other.ok());
  EXPECT_GT(*other, *first);
  EXPECT_EQ(Get(*stores[0], "other")->value, "");
  EXPECT_TRUE(Delete(*stores[1], "k").ok());
  EXPECT_TRUE(Delete(*stores[1], "k").ok());
  EXPECT_EQ(Get(*stores[0], "k").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreConformanceTest, CompareAndSetSwapsOnlyAtTheExpectedRevisionAndShowsWhatStoodInTheWay) {
  auto store = Connect(0);
  auto result = CompareAndSet(*store, "k", 5, "x");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->swapped);
  EXPECT_EQ(result->current.revision, 0);

  result = CompareAndSet(*store, "k", 0, "first");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->swapped);
  EXPECT_EQ(result->current.value, "first");
  const Revision revision = result->current.revision;

  result = CompareAndSet(*store, "k", 0, "second");
  EXPECT_FALSE(result->swapped);
  EXPECT_EQ(result->current.value, "first");
  EXPECT_EQ(result->current.revision, revision);

  result = CompareAndSet(*store, "k", revision, "second");
  EXPECT_TRUE(result->swapped);
  EXPECT_GT(result->current.revision, revision);
  EXPECT_EQ(Get(*store, "k")->value, "second");
}

TEST_P(StoreConformanceTest, ConcurrentCompareAndSetLosesNoIncrement) {
  constexpr int kIncrements = 25;
  auto stores = ConnectAll();
  std::vector<std::thread> threads;
  for (auto& store : stores) {
    threads.emplace_back([&store] {
      Entry seen;
      for (int done = 0; done < kIncrements;) {
        int count = 0;
        if (!seen.value.empty()) {
          ASSERT_TRUE(absl::SimpleAtoi(seen.value, &count));
        }
        const auto result = CompareAndSet(*store, "counter", seen.revision, absl::StrCat(count + 1));
        ASSERT_TRUE(result.ok()) << result.status();
        if (result->swapped) ++done;
        seen = result->current;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Get(*stores[0], "counter")->value, absl::StrCat(kIncrements * kWorldSize));
}

TEST_P(StoreConformanceTest, KeysAndValuesHaveLimitsAndThoseAreUsable) {
  auto store = Connect(0);
  const std::string longest_key(Store::kMaxKeyBytes, 'k');
  const std::string largest(Store::kMaxValueBytes, 'v');
  EXPECT_TRUE(Set(*store, longest_key, largest).ok());
  const auto read = Get(*store, longest_key);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->value, largest);

  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(Set(*store, "", "v").status().code(), invalid);
  EXPECT_EQ(Set(*store, longest_key + "k", "v").status().code(), invalid);
  EXPECT_EQ(Set(*store, "k", largest + "v").status().code(), invalid);
  EXPECT_EQ(Get(*store, longest_key + "k").status().code(), invalid);
  EXPECT_EQ(Delete(*store, "").code(), invalid);
  EXPECT_EQ(CompareAndSet(*store, "k", 0, largest + "v").status().code(), invalid);
  EXPECT_EQ(StartGather(*store, "k", 0, 1, largest + "v").Get().status().code(), invalid);
  EXPECT_EQ(StartGather(*store, "", 0, 1, "").Get().status().code(), invalid);
  WatchLog log;
  store->Watch(longest_key + "k", log.Callback());
  EXPECT_EQ(log.AwaitEnd().code(), invalid);
  EXPECT_TRUE(Get(*store, longest_key).ok());  // and the session goes on
}

TEST_P(StoreConformanceTest, OnlyTheServerWritesSessionKeys) {
  auto store = Connect(0);
  const std::string key = SessionKey(1);
  EXPECT_EQ(Set(*store, key, "x").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CompareAndSet(*store, key, 0, "x").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Delete(*store, SessionKey(0)).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Get(*store, SessionKey(0)).ok());
}

// --- Watches

TEST_P(StoreConformanceTest, AWatchBeginsWithASnapshotEvenOfNothingAndSeesItsPrefixOnly) {
  auto store = Connect(0);
  WatchLog empty;
  store->Watch("a/", empty.Callback());
  empty.AwaitSnapshot();
  EXPECT_TRUE(empty.events().empty());

  ASSERT_TRUE(Set(*store, "a/1", "one").ok());
  ASSERT_TRUE(Set(*store, "b/1", "not for a").ok());
  ASSERT_TRUE(Delete(*store, "a/1").ok());
  ASSERT_TRUE(Set(*store, "a/2", "two").ok());
  empty.AwaitPut("a/2", "two");
  const auto events = empty.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].entry.value, "one");
  EXPECT_EQ(events[1].kind, WatchEvent::Kind::kDelete);
  EXPECT_EQ(events[1].entry.key, "a/1");
  EXPECT_LT(events[0].entry.revision, events[1].entry.revision);
  EXPECT_LT(events[1].entry.revision, events[2].entry.revision);

  WatchLog later;
  store->Watch("a/", later.Callback());
  later.AwaitSnapshot();
  ASSERT_EQ(later.events().size(), 1u);
  EXPECT_EQ(later.events()[0].entry.value, "two");
}

TEST_P(StoreConformanceTest, ThereIsNoGapBetweenAWatchsSnapshotAndItsChanges) {
  constexpr int kWrites = 300;
  auto stores = ConnectAll(3);
  std::thread writer([&] {
    for (int i = 1; i <= kWrites; ++i) ASSERT_TRUE(Set(*stores[0], "w/k", absl::StrCat(i)).ok());
  });
  std::vector<WatchLog> logs(20);
  for (size_t i = 0; i < logs.size(); ++i) {
    stores[1 + i % 2]->Watch("w/", logs[i].Callback());
    logs[i].AwaitSnapshot();
  }
  writer.join();
  for (WatchLog& log : logs) {
    log.AwaitPut("w/k", absl::StrCat(kWrites));
    int last = 0;
    Revision revision = 0;
    for (const WatchEvent& event : log.events()) {
      int value = 0;
      ASSERT_TRUE(absl::SimpleAtoi(event.entry.value, &value));
      if (last != 0) {
        EXPECT_EQ(value, last + 1);
      }
      EXPECT_GT(event.entry.revision, revision);
      last = value;
      revision = event.entry.revision;
    }
    EXPECT_EQ(last, kWrites);
  }
}

TEST_P(StoreConformanceTest, AfterUnwatchOnTheExecutorTheCallbackRunsNoMore) {
  auto store = Connect(0);
  Executor* executor = harness_->executor(0);
  auto over = std::make_shared<std::atomic<bool>>(false);
  auto late = std::make_shared<std::atomic<int>>(0);
  WatchLog log;
  const auto watch = store->Watch("k", [over, late, inner = log.Callback()](auto batch) mutable {
    if (*over) ++*late;
    inner(std::move(batch));
  });
  log.AwaitSnapshot();
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(Set(*store, "k", absl::StrCat(i)).ok());
  });
  log.AwaitPut("k", "10");
  Promised<absl::Status> done;
  executor->Post([&, callback = done.Callback()]() mutable {
    store->Unwatch(watch);
    *over = true;
    callback(absl::OkStatus());
  });
  EXPECT_TRUE(done.Get().ok());
  writer.join();
  EXPECT_TRUE(Get(*store, "k").ok());
  EXPECT_EQ(*late, 0);
  store->Unwatch(watch);
  store->Unwatch(4711);
}

// --- Sessions

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
  EXPECT_EQ(second.status().message(),
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

// --- Gather

TEST_P(StoreConformanceTest, AGatherGivesEveryRankAllValuesInOrderAndOneRevision) {
  auto stores = ConnectAll();
  Revision last = 0;
  for (int round = 0; round < 3; ++round) {  // the key is free again at once
    std::vector<PromisedOr<GatherResult>> gathers;
    for (int rank = kWorldSize - 1; rank >= 0; --rank) {
      gathers.push_back(StartGather(*stores[rank], "g", rank, kWorldSize,
                                    absl::StrCat("value ", rank, " of round ", round)));
    }
    const auto first = gathers[0].Get();
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GT(first->revision, last);
    last = first->revision;
    for (const auto& gather : gathers) {
      const auto result = gather.Get();
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->revision, last);
      ASSERT_EQ(result->values.size(), static_cast<size_t>(kWorldSize));
      for (int rank = 0; rank < kWorldSize; ++rank) {
        EXPECT_EQ(result->values[rank], absl::StrCat("value ", rank, " of round ", round));
      }
    }
  }
}

TEST_P(StoreConformanceTest, AGatherThatTimesOutFailsForAllWithTheMissingRanksByNumber) {
  auto stores = ConnectAll();
  auto waits_long = StartGather(*stores[0], "g", 0, 4, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  auto waits_short =
      StartGather(*stores[1], "g", 1, 4, "", MonotonicNow() + absl::Milliseconds(50));
  for (const auto& gather : {waits_long, waits_short}) {
    const auto result = gather.Get();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("ranks 2, 3 of 4 did not come"));
  }
  // The late ones begin a round of their own, with the others.
  std::vector<PromisedOr<GatherResult>> gathers;
  for (int rank = 0; rank < 4; ++rank) {
    gathers.push_back(StartGather(*stores[rank], "g", rank, 4, absl::StrCat(rank)));
  }
  for (const auto& gather : gathers) EXPECT_TRUE(gather.Get().ok());
}

TEST_P(StoreConformanceTest, AGatherFailsForAllWhenAContributorIsLostOrLeaves) {
  auto stores = ConnectAll();
  auto gather = StartGather(*stores[0], "g", 0, 3, "");
  auto of_lost = StartGather(*stores[1], "g", 1, 3, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  harness_->DeclareLost(1, "killed by signal 9");
  EXPECT_EQ(gather.Get().status(),
            absl::AbortedError("rank 1 (host a, pid 101) was lost: killed by signal 9"));
  EXPECT_FALSE(of_lost.Get().ok());

  // Ranks 2 and 3 of the world are ranks 0 and 1 of this gather.
  gather = StartGather(*stores[3], "g", 1, 2, "");
  ASSERT_TRUE(Get(*stores[3], SessionKey(3)).ok());
  EXPECT_TRUE(Leave(*stores[3], "label 17 out of range").ok());
  EXPECT_FALSE(gather.Get().ok());
  gather = StartGather(*stores[2], "h", 0, 3, "");
  auto other = StartGather(*stores[0], "h", 2, 3, "");
  ASSERT_TRUE(Get(*stores[2], SessionKey(2)).ok());
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  harness_->Kill(2);
  const auto failed = other.Get();
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("rank 2 (host a, pid 102) was lost: its connection"));
}

TEST_P(StoreConformanceTest, AGatherOfOtherSizesFailsForAllWithBothSizes) {
  auto stores = ConnectAll(2);
  auto first = StartGather(*stores[0], "g", 0, 2, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  auto second = StartGather(*stores[1], "g", 1, 3, "");
  const auto status = first.Get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 (host a, pid 100) waits for 2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 (host a, pid 101) for 3"));
  EXPECT_EQ(second.Get().status(), status);
}

TEST_P(StoreConformanceTest, ADuplicateRankInAGatherIsRefusedAndTheFirstGoesOn) {
  auto stores = ConnectAll(2);
  auto first = StartGather(*stores[0], "g", 0, 2, "first");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  const auto duplicate = StartGather(*stores[1], "g", 0, 2, "second").Get();
  EXPECT_EQ(duplicate.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(duplicate.status().message()),
              HasSubstr("duplicate rank 0: host a, pid 100 and host a, pid 101"));
  auto second = StartGather(*stores[1], "g", 1, 2, "third");
  const auto result = first.Get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->values, (std::vector<std::string>{"first", "third"}));
  EXPECT_TRUE(second.Get().ok());
}

TEST_P(StoreConformanceTest, AGatherOfARankOrSizeThatCannotBeIsRefused) {
  auto store = Connect(0);
  const std::vector<std::pair<int, int>> impossible = {{0, 0}, {-1, 2}, {2, 2}, {0, 5}, {0, -1}};
  for (const auto& [rank, size] : impossible) {
    EXPECT_EQ(StartGather(*store, "g", rank, size, "").Get().status().code(),
              absl::StatusCode::kInvalidArgument)
        << rank << " of " << size;
  }
  EXPECT_TRUE(StartGather(*store, "g", 0, 1, "alone").Get().ok());
}

TEST_P(StoreConformanceTest, AWithdrawnContributionFailsTheRoundForAllWithTheReason) {
  auto stores = ConnectAll(3);
  stores[0]->Withdraw("g", 0, "nothing waits");
  auto first = StartGather(*stores[0], "g", 0, 3, "");
  auto second = StartGather(*stores[1], "g", 1, 3, "");
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  ASSERT_TRUE(Get(*stores[1], SessionKey(1)).ok());
  stores[0]->Withdraw("g", 1, "of somebody else");
  stores[0]->Withdraw("h", 0, "of another key");
  stores[1]->Withdraw("g", 1, "set-up failed");
  EXPECT_EQ(first.Get().status(), absl::AbortedError("rank 1 withdrew: set-up failed"));
  EXPECT_EQ(second.Get().status(), absl::AbortedError("rank 1 withdrew: set-up failed"));
}

// --- Bounds

TEST_P(StoreConformanceTest, ADeadlineInThePastAnswersDeadlineExceeded) {
  auto store = Connect(0);
  const absl::Time past = MonotonicNow() - absl::Seconds(1);
  PromisedOr<Revision> set;
  store->Set("k", "v", Lifetime::kPersistent, past, set.Callback());
  EXPECT_EQ(set.Get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(StartGather(*store, "g", 0, 2, "", past).Get().status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Get(*store, "k").status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StoreConformanceTest, WithoutItsServerEverythingPendingAndLaterAnswersUnavailable) {
  auto stores = ConnectAll(2);
  WatchLog log;
  stores[0]->Watch("k", log.Callback());
  log.AwaitSnapshot();
  auto gather = StartGather(*stores[0], "g", 0, 2, "", absl::InfiniteFuture());
  ASSERT_TRUE(Get(*stores[0], SessionKey(0)).ok());
  harness_->StopServer();
  EXPECT_EQ(gather.Get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gather.Get().status().message()), HasSubstr("the store ("));
  EXPECT_EQ(log.AwaitEnd().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Set(*stores[0], "k", "v").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Leave(*stores[0]).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(Get(*stores[1], "k").ok());
  EXPECT_EQ(gather.calls(), 1);
}

TEST_P(StoreConformanceTest, CallbacksRunOnTheExecutorAndNeverInsideTheCall) {
  auto store = Connect(0);
  Executor* executor = harness_->executor(0);
  Promised<absl::Status> done;
  auto callback = std::make_shared<absl::AnyInvocable<void(absl::Status)>>(done.Callback());
  executor->Post([&store, executor, callback] {
    // From within the executor, too, with good and with bad arguments.
    auto inside = std::make_shared<bool>(true);
    auto left = std::make_shared<int>(3);
    const auto check = [=] {
      EXPECT_FALSE(*inside);
      EXPECT_TRUE(executor->RunsHere());
      if (--*left == 0) (*callback)(absl::OkStatus());
    };
    store->Set("k", "v", Lifetime::kPersistent, Soon(), [check](auto) { check(); });
    store->Get("", Soon(), [check](auto) { check(); });
    store->Watch("nothing", [check](auto) { check(); });
    *inside = false;
  });
  EXPECT_TRUE(done.Get().ok());
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformanceTest,
                         ::testing::Values(Kind{"Memory", MakeMemoryHarness},
                                           Kind{"Tcp", MakeTcpHarness}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::store_testing
