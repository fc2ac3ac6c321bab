#include "muster/core/store/store_engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::store_internal {
namespace {

using ::testing::HasSubstr;
using Liveness = SessionRecord::Liveness;

constexpr absl::Duration kTimeout = absl::Seconds(10);

class Recorder final : public StoreEngine::Sink {
 public:
  void Send(const Response& response) override { responses.push_back(response); }

  // The answer to `request`; fails the test unless there is exactly one.
  Response AnswerTo(uint64_t request) const {
    Response found;
    int count = 0;
    for (const Response& response : responses) {
      if (response.kind != Response::Kind::kAnswer || response.id != request) continue;
      found = response;
      ++count;
    }
    EXPECT_EQ(count, 1) << "answers to request " << request;
    return found;
  }

  std::vector<Response> responses;
};

class StoreEngineTest : public ::testing::Test {
 protected:
  static constexpr int kWorldSize = 4;

  void Make(StoreEngine::Options options = {}) {
    options.world_size = kWorldSize;
    engine_ = std::make_unique<StoreEngine>(options);
  }
  void SetUp() override { Make(); }

  static SessionInfo Info(int rank, uint64_t incarnation = 1) {
    return {rank, kWorldSize, "a", 100 * static_cast<int64_t>(incarnation) + rank, incarnation};
  }

  StoreEngine::SessionId Open(int rank, absl::Duration timeout = absl::InfiniteDuration(),
                              uint64_t incarnation = 1) {
    const auto session = engine_->Open(Info(rank, incarnation), timeout, &sinks_[rank], now_);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : 0;
  }

  // Sends one and gives its id.
  uint64_t Ask(StoreEngine::SessionId session, Request request) {
    request.id = ++last_request_;
    engine_->Handle(session, request, now_);
    return request.id;
  }
  static Request Set(const std::string& key, const std::string& value,
                     Lifetime lifetime = Lifetime::kPersistent) {
    Request request;
    request.type = Request::Type::kSet;
    request.key = key;
    request.value = value;
    request.lifetime = lifetime;
    return request;
  }
  static Request Of(Request::Type type, const std::string& key = "") {
    Request request;
    request.type = type;
    request.key = key;
    return request;
  }
  static Request Gather(const std::string& key, int rank, int size,
                        absl::Duration timeout = absl::InfiniteDuration()) {
    Request request = Of(Request::Type::kGather, key);
    request.rank = rank;
    request.size = size;
    request.timeout = timeout;
    return request;
  }

  // Lets time pass as a server does that is never late.
  void RunUntil(absl::Time until) {
    while (engine_->NextTick() <= until) {
      now_ = std::max(now_, engine_->NextTick());
      engine_->Tick(now_);
    }
    now_ = until;
  }

  SessionRecord RecordOf(int rank) const {
    for (const SessionRecord& record : engine_->Records()) {
      if (record.rank == rank) return record;
    }
    ADD_FAILURE() << "no record of rank " << rank;
    return {};
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  uint64_t last_request_ = 0;
  std::map<int, Recorder> sinks_;
  std::unique_ptr<StoreEngine> engine_;
};

// --- Heartbeats

TEST_F(StoreEngineTest, ASilentSessionIsLostAfterItsTimeoutAndNotBefore) {
  Open(0, kTimeout);
  RunUntil(now_ + kTimeout);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  RunUntil(now_ + kTimeout / 5);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLost);
  EXPECT_EQ(RecordOf(0).reason, "no heartbeat for 10s");
  EXPECT_EQ(engine_->NextTick(), absl::InfiniteFuture());
}

TEST_F(StoreEngineTest, WhateverASessionSendsIsASignOfLife) {
  const auto session = Open(0, kTimeout);
  for (int i = 0; i < 20; ++i) {
    RunUntil(now_ + kTimeout * 0.9);
    Ask(session, i % 2 == 0 ? Of(Request::Type::kHeartbeat) : Of(Request::Type::kGet, "k"));
  }
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  RunUntil(now_ + 2 * kTimeout);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLost);
}

TEST_F(StoreEngineTest, EachSessionHasItsOwnTimeoutAndAnInfiniteOneNeverEnds) {
  Open(0, absl::InfiniteDuration());
  EXPECT_EQ(engine_->NextTick(), absl::InfiniteFuture());
  Open(1, kTimeout);
  Open(2, 3 * kTimeout);
  RunUntil(now_ + 2 * kTimeout);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLost);
  EXPECT_EQ(RecordOf(2).liveness, Liveness::kLive);
  RunUntil(now_ + 2 * kTimeout);
  EXPECT_EQ(RecordOf(2).liveness, Liveness::kLost);
  RunUntil(now_ + 100 * kTimeout);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
}

TEST_F(StoreEngineTest, AServerThatWasPausedGivesEverybodyAFreshChance) {
  const auto session = Open(0, kTimeout);
  Open(1, kTimeout);
  RunUntil(now_ + kTimeout / 2);
  now_ += 100 * kTimeout;  // nobody called Tick: the server's process was stopped
  engine_->Tick(now_);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLive);
  Ask(session, Of(Request::Type::kHeartbeat));  // what had arrived meanwhile
  RunUntil(now_ + kTimeout * 0.9);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLost);
}

TEST_F(StoreEngineTest, TicksThatComeLateAllTheTimeStillFindTheDead) {
  Open(0, kTimeout);
  for (int i = 0; i < 12; ++i) {
    now_ += kTimeout / 2;
    engine_->Tick(now_);
  }
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLost);
}

// --- The end of a session

TEST_F(StoreEngineTest, InItsGraceALauncherMayNameTheCause) {
  StoreEngine::Options options;
  options.loss_grace = absl::Seconds(1);
  Make(options);
  const auto named = Open(0, kTimeout);
  const auto unnamed = Open(1, kTimeout);
  engine_->Disconnect(named, "its connection closed", now_);
  engine_->Disconnect(unnamed, "its connection closed", now_);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  engine_->DeclareLost(0, "killed by signal 9");
  EXPECT_EQ(RecordOf(0).reason, "killed by signal 9");
  EXPECT_EQ(engine_->NextTick(), now_ + absl::Seconds(1));
  RunUntil(now_ + absl::Seconds(1));
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLost);
  EXPECT_EQ(RecordOf(1).reason, "its connection closed");
  EXPECT_EQ(RecordOf(0).reason, "killed by signal 9");
  EXPECT_EQ(engine_->open_sessions(), 0u);
}

TEST_F(StoreEngineTest, ASuccessorEndsTheGraceOfTheOneBefore) {
  StoreEngine::Options options;
  options.loss_grace = absl::Hours(1);
  Make(options);
  Open(1);
  sinks_[1].responses.clear();
  const auto watcher = Open(0);
  Ask(watcher, Of(Request::Type::kWatch, std::string(kSessionKeyPrefix)));
  engine_->Disconnect(engine_->LiveSession(1), "its connection closed", now_);
  EXPECT_NE(Open(1, absl::InfiniteDuration(), 2), 0u);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLive);
  EXPECT_EQ(RecordOf(1).incarnation, 2u);
  std::vector<Liveness> seen;
  for (const Response& batch : sinks_[0].responses) {
    for (const WatchEvent& event : batch.events) {
      const auto record = SessionRecord::Decode(event.entry.value);
      if (record.ok() && record->rank == 1) seen.push_back(record->liveness);
    }
  }
  EXPECT_EQ(seen, (std::vector<Liveness>{Liveness::kLive, Liveness::kLost, Liveness::kLive}));
}

TEST_F(StoreEngineTest, WhoIsRefusedForItsWorldSizeIsNotWaitedForButMayComeWithTheRightOne) {
  Open(0);
  SessionInfo wrong = Info(1);
  wrong.world_size = 7;
  const absl::Status refused =
      engine_->Open(wrong, absl::InfiniteDuration(), &sinks_[1], now_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  engine_->NoteRefusal(wrong, refused);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLost);
  EXPECT_THAT(RecordOf(1).WhatHappened(),
              HasSubstr("rank 1 (host a, pid 101) was lost: it was started for a world of 7 ranks, "
                        "the store serves one of 4"));
  Open(1);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLive);
  // Once there, a rank is not touched by whoever else claims its number.
  engine_->NoteRefusal(wrong, refused);
  EXPECT_EQ(RecordOf(1).liveness, Liveness::kLive);
  wrong.rank = kWorldSize;
  engine_->NoteRefusal(wrong, refused);
  EXPECT_EQ(engine_->Records().size(), 2u);
}

TEST_F(StoreEngineTest, WhenARankCameTwiceThoseThatAreMissingAreNotWaitedFor) {
  Open(1);
  Open(3);
  const SessionInfo twice = Info(1, 5);
  const absl::Status refused =
      engine_->Open(twice, absl::InfiniteDuration(), &sinks_[2], now_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  engine_->NoteRefusal(twice, refused);
  EXPECT_EQ(RecordOf(2).liveness, Liveness::kLost);
  EXPECT_EQ(RecordOf(2).WhatHappened(),
            "rank 2 was lost: it never came, and rank 1 came twice: host a, pid 101, and host a, "
            "pid 501: start each rank once");
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLost);
  EXPECT_EQ(RecordOf(3).liveness, Liveness::kLive);
  // Who comes after all is there.
  Open(0);
  EXPECT_EQ(RecordOf(0).liveness, Liveness::kLive);
  EXPECT_EQ(RecordOf(2).liveness, Liveness::kLost);
  // With everybody there it is the stranger's problem alone.
  Open(2);
  engine_->NoteRefusal(twice, refused);
  for (int rank = 0; rank < kWorldSize; ++rank) EXPECT_EQ(RecordOf(rank).liveness, Liveness::kLive);
}

TEST_F(StoreEngineTest, TheCauseIsSeenBeforeWhatFollowsFromIt) {
  const auto watcher = Open(0);
  const auto other = Open(1);
  Ask(other, Set("theirs", "v", Lifetime::kSession));
  Ask(watcher, Of(Request::Type::kWatch));
  const uint64_t gather = Ask(watcher, Gather("g", 0, 3));
  Ask(other, Gather("g", 1, 3));
  sinks_[0].responses.clear();
  engine_->DeclareLost(1, "killed by signal 9");
  ASSERT_EQ(sinks_[0].responses.size(), 2u);
  const Response& news = sinks_[0].responses[0];
  ASSERT_EQ(news.events.size(), 2u);
  EXPECT_EQ(news.events[0].entry.key, SessionKey(1));
  EXPECT_EQ(news.events[1].entry.key, "theirs");
  EXPECT_EQ(news.events[1].kind, WatchEvent::Kind::kDelete);
  EXPECT_EQ(sinks_[0].responses[1].id, gather);
  EXPECT_EQ(sinks_[0].responses[1].status.code(), absl::StatusCode::kAborted);
}

TEST_F(StoreEngineTest, AFencedSessionChangesNothingAndHearsTheReason) {
  const auto session = Open(0, kTimeout);
  const uint64_t waits = Ask(session, Gather("g", 0, 2));
  const uint64_t watch = Ask(session, Of(Request::Type::kWatch, "k"));
  RunUntil(now_ + 2 * kTimeout);
  EXPECT_EQ(sinks_[0].AnswerTo(waits).status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(sinks_[0].responses.back().id, watch);
  EXPECT_EQ(sinks_[0].responses.back().status.code(), absl::StatusCode::kFailedPrecondition);
  const size_t keys = engine_->keys();
  for (const Request& request :
       {Set("k", "v"), Of(Request::Type::kGet, "k"), Of(Request::Type::kDelete, "k"),
        Of(Request::Type::kCompareAndSet, "k"), Gather("g", 0, 1), Of(Request::Type::kLeave),
        Of(Request::Type::kHeartbeat)}) {
    const Response answer = sinks_[0].AnswerTo(Ask(session, request));
    EXPECT_EQ(answer.status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(answer.status.message()), HasSubstr("no heartbeat for 10s"));
  }
  const size_t responses = sinks_[0].responses.size();
  Ask(session, Of(Request::Type::kUnwatch));
  Ask(session, Of(Request::Type::kWithdraw, "g"));
  EXPECT_EQ(sinks_[0].responses.size(), responses);  // these have no answers
  EXPECT_EQ(engine_->keys(), keys);
  engine_->Disconnect(session, "", now_);
  Ask(session, Set("k", "v"));
  EXPECT_EQ(sinks_[0].responses.size(), responses);
}

TEST_F(StoreEngineTest, ManyIncarnationsOfARankDoNotPileUp) {
  for (uint64_t incarnation = 1; incarnation <= 500; ++incarnation) {
    const auto session = Open(0, kTimeout, incarnation);
    ASSERT_NE(session, 0u);
    Ask(session, Set("k", "v", Lifetime::kSession));
    engine_->Disconnect(session, "its connection closed", now_);
    EXPECT_FALSE(engine_->Open(Info(0, incarnation), kTimeout, &sinks_[0], now_).ok());
  }
  EXPECT_EQ(engine_->keys(), 1u);  // the record
  EXPECT_EQ(engine_->Records().size(), 1u);
}

// --- Limits

TEST_F(StoreEngineTest, LimitsAreErrorsWithTheirValuesAndTheStoreGoesOn) {
  StoreEngine::Options options;
  options.keys.keys_per_owner = 2;
  options.keys.keys = 6;
  options.keys.bytes = 1000;
  options.watches_per_session = 1;
  options.gathers.rounds = 2;
  options.gathers.round_bytes = 10;
  options.gathers.bytes = 15;
  options.gathers.per_session = 2;
  Make(options);
  const auto session = Open(0);
  Recorder& sink = sinks_[0];
  const auto code = [&](const Request& request) {
    return sink.AnswerTo(Ask(session, request)).status.code();
  };
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  EXPECT_EQ(code(Set("s1", "", Lifetime::kSession)), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("s2", "", Lifetime::kSession)), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("s3", "", Lifetime::kSession)), exhausted);
  EXPECT_EQ(code(Set("s2", "again", Lifetime::kSession)), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("big", std::string(2000, 'x'))), exhausted);
  EXPECT_EQ(code(Set("k1", "")), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("k2", "")), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("k3", "")), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("k4", "")), exhausted);
  EXPECT_EQ(code(Of(Request::Type::kDelete, "k3")), absl::StatusCode::kOk);
  EXPECT_EQ(code(Set("k4", "")), absl::StatusCode::kOk);

  Ask(session, Of(Request::Type::kWatch, "a"));
  Ask(session, Of(Request::Type::kWatch, "b"));
  EXPECT_EQ(sink.responses.back().status.code(), exhausted);

  Request big = Gather("g", 0, 2);
  big.value = std::string(11, 'x');
  const auto says = [&](const Request& request, absl::string_view what) {
    const absl::Status status = sink.AnswerTo(Ask(session, request)).status;
    EXPECT_EQ(status.code(), exhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(what)));
  };
  says(big,
       "gather \"g\": the values of 2 ranks together would be 11 bytes or more, the limit is 10");
  big.value.resize(10);
  Ask(session, big);
  Request more = Gather("h", 0, 2);
  more.value = std::string(6, 'x');
  says(more, "the values of all gathers that wait would be 16 bytes, the limit is 15");
  more.value.resize(5);
  Ask(session, more);
  EXPECT_EQ(engine_->waiting_gathers(), 2u);
  says(Gather("i", 0, 2), "2 gathers wait already, which is the limit");
}

// However many sessions it has had.
TEST_F(StoreEngineTest, ARankThatNeverDeletesAnythingLeavesRoomForTheOthers) {
  StoreEngine::Options options;
  options.keys.keys_per_writer = 3;
  options.keys.bytes_per_writer = 100;
  Make(options);
  const auto other = Open(0);
  const auto code = [&](int rank, StoreEngine::SessionId session, const Request& request) {
    return sinks_[rank].AnswerTo(Ask(session, request)).status;
  };
  auto leaks = Open(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(code(1, leaks, Set(absl::StrCat("k", i), "")).ok());
  EXPECT_EQ(code(1, leaks, Set("k3", "")),
            absl::ResourceExhaustedError(
                "key \"k3\": rank 1 has written 3 keys of the store, which is its limit: delete "
                "those that nobody needs any more"));
  EXPECT_TRUE(code(1, leaks, Set("k2", "again")).ok());
  EXPECT_EQ(code(1, leaks, Set("k2", std::string(100, 'x'))),
            absl::ResourceExhaustedError(
                "key \"k2\": rank 1 would have written 106 bytes of the store, its limit is 100: "
                "it is for small records, and data goes through a group"));
  engine_->Disconnect(leaks, "its connection closed", now_);
  leaks = Open(1, absl::InfiniteDuration(), 2);
  EXPECT_EQ(code(1, leaks, Set("k3", "")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(code(0, other, Set("k3", "")).ok());
  // Who writes a key last has it.
  EXPECT_TRUE(code(0, other, Set("k2", "taken over")).ok());
  EXPECT_TRUE(code(1, leaks, Set("k4", "")).ok());
  EXPECT_EQ(code(1, leaks, Set("k3", "")).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(code(0, other, Of(Request::Type::kDelete, "k4")).ok());
  EXPECT_TRUE(code(1, leaks, Set("k5", "")).ok());
  Ask(other, Gather("g", 0, 2));
  EXPECT_TRUE(code(1, leaks, Gather("g", 1, 2)).ok());
}

TEST_F(StoreEngineTest, AFullStoreStillTellsOfALoss) {
  StoreEngine::Options options;
  options.keys.keys = 3;
  options.keys.bytes = 400;
  Make(options);
  const auto session = Open(0);
  const auto lost = Open(1);
  Ask(session, Set("k", std::string(200, 'x')));
  Ask(session, Of(Request::Type::kWatch, std::string(kSessionKeyPrefix)));
  engine_->Disconnect(lost, std::string(300, 'r'), now_);
  const auto record = SessionRecord::Decode(
      sinks_[0].AnswerTo(Ask(session, Of(Request::Type::kGet, SessionKey(1)))).entry.value);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->liveness, Liveness::kLost);
  EXPECT_EQ(sinks_[0].responses[sinks_[0].responses.size() - 2].events.size(), 1u);
}

// --- Gather

TEST_F(StoreEngineTest, TheEarliestDeadlineOfARoundEndsItAtThatTime) {
  const auto first = Open(0);
  const auto second = Open(1);
  const uint64_t patient = Ask(first, Gather("g", 0, 4, absl::Seconds(60)));
  const uint64_t hasty = Ask(second, Gather("g", 2, 4, absl::Seconds(5)));
  EXPECT_EQ(engine_->NextTick(), now_ + absl::Seconds(5));
  RunUntil(now_ + absl::Seconds(4));
  EXPECT_EQ(engine_->waiting_gathers(), 1u);
  RunUntil(now_ + absl::Seconds(1));
  EXPECT_EQ(sinks_[0].AnswerTo(patient).status,
            absl::DeadlineExceededError("ranks 1, 3 of 4 did not come to gather \"g\" in time"));
  EXPECT_EQ(sinks_[1].AnswerTo(hasty).status, sinks_[0].AnswerTo(patient).status);
  EXPECT_EQ(engine_->waiting_gathers(), 0u);
  EXPECT_EQ(engine_->NextTick(), absl::InfiniteFuture());
}

// Who gives up an overdue round to a server that is late is not why it failed.
TEST_F(StoreEngineTest, AnOverdueRoundNamesThoseThatAreMissingThoughSomebodyWithdrawsFirst) {
  const auto waiting = Open(0);
  const auto impatient = Open(1);
  const uint64_t waits = Ask(waiting, Gather("g", 0, 3, absl::Seconds(5)));
  const uint64_t gave_up = Ask(impatient, Gather("g", 1, 3, absl::Seconds(5)));
  now_ += absl::Seconds(6);
  Request withdraw = Of(Request::Type::kWithdraw, "g");
  withdraw.rank = 1;
  Ask(impatient, withdraw);
  for (const auto& [rank, request] : {std::pair(0, waits), std::pair(1, gave_up)}) {
    const absl::Status status = sinks_[rank].AnswerTo(request).status;
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 of 3"));
  }
}

TEST_F(StoreEngineTest, ACompletedRoundLeavesNoDeadlineBehind) {
  const auto session = Open(0);
  Ask(session, Gather("g", 0, 1, absl::Seconds(5)));
  EXPECT_EQ(engine_->NextTick(), absl::InfiniteFuture());
  EXPECT_EQ(engine_->waiting_gathers(), 0u);
}

// --- Everything at once

TEST_F(StoreEngineTest, UnderRandomRequestsAndDeathsEveryRequestIsAnsweredOnceAndNothingIsLeft) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Make();
    last_request_ = 0;
    sinks_.clear();
    std::mt19937 random(seed);
    std::map<int, StoreEngine::SessionId> live;
    std::map<int, std::set<uint64_t>> asked;  // of sessions whose sink never was cut off
    std::set<int> cut;
    uint64_t incarnation = 1;
    for (int step = 0; step < 2000; ++step) {
      const int rank = static_cast<int>(random() % kWorldSize);
      const uint32_t what = random() % 100;
      now_ += absl::Milliseconds(random() % 50);
      engine_->Tick(now_);
      if (live.count(rank) == 0) {
        live[rank] =
            Open(rank, random() % 2 == 0 ? kTimeout : absl::InfiniteDuration(), ++incarnation);
        ASSERT_NE(live[rank], 0u) << "seed " << seed << " step " << step;
        continue;
      }
      const std::string key = absl::StrCat("k", random() % 5);
      if (what < 2) {
        engine_->Disconnect(live[rank], "its connection closed", now_);
        live.erase(rank);
        cut.insert(rank);
        continue;
      }
      if (what < 4) {
        engine_->DeclareLost(rank, "killed by signal 9");
        engine_->Disconnect(live[rank], "", now_);
        live.erase(rank);
        continue;
      }
      Request request;
      if (what < 30) {
        request = Set(key, "v", random() % 2 == 0 ? Lifetime::kSession : Lifetime::kPersistent);
      } else if (what < 40) {
        request = Of(Request::Type::kDelete, key);
      } else if (what < 50) {
        request = Of(Request::Type::kCompareAndSet, key);
      } else if (what < 60) {
        request = Of(Request::Type::kGet, key);
      } else if (what < 62) {
        request = Of(Request::Type::kWatch, "k");
      } else if (what < 95) {
        const int size = 1 + static_cast<int>(random() % kWorldSize);
        request = Gather(key, static_cast<int>(random() % size), size,
                         absl::Milliseconds(random() % 500));
      } else if (what < 97) {
        request = Of(Request::Type::kWithdraw, key);
        request.rank = static_cast<int>(random() % kWorldSize);
      } else {
        request = Of(Request::Type::kHeartbeat);
      }
      const uint64_t id = Ask(live[rank], request);
      if (request.type != Request::Type::kWatch && request.type != Request::Type::kWithdraw) {
        asked[rank].insert(id);
      }
    }
    for (const auto& [rank, session] : live) Ask(session, Of(Request::Type::kLeave));
    EXPECT_EQ(engine_->open_sessions(), 0u);
    EXPECT_EQ(engine_->waiting_gathers(), 0u);
    EXPECT_EQ(engine_->NextTick(), absl::InfiniteFuture());
    for (const auto& [rank, ids] : asked) {
      std::map<uint64_t, int> answers;
      for (const Response& response : sinks_[rank].responses) {
        if (response.kind == Response::Kind::kAnswer) ++answers[response.id];
      }
      for (const uint64_t id : ids) {
        EXPECT_LE(answers[id], 1) << "seed " << seed << " rank " << rank << " request " << id;
        if (cut.count(rank) == 0) {
          EXPECT_EQ(answers[id], 1) << "seed " << seed;
        }
      }
    }
    // No session key outlived its session: who comes now sees persistent ones and records only.
    const auto reader = Open(0, absl::InfiniteDuration(), ++incarnation);
    Ask(reader, Of(Request::Type::kWatch));
    const size_t before = sinks_[0].responses.back().events.size();
    Ask(reader, Of(Request::Type::kLeave));
    EXPECT_EQ(engine_->keys(), before);
  }
}

}  // namespace
}  // namespace muster::store_internal
