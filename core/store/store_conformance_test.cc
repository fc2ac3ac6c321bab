// Conformance of every Store: keys, watches and bounds.

#include "muster/core/store/store_conformance.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11)
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/core/platform/executor.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_test_util.h"

namespace muster::store_testing {
namespace {

using ::testing::HasSubstr;

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
        const auto result =
            CompareAndSet(*store, "counter", seen.revision, absl::StrCat(count + 1));
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

MUSTER_INSTANTIATE_FOR_ALL_STORES();

}  // namespace
}  // namespace muster::store_testing
