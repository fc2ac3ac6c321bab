#include "muster/core/lifecycle/group_record.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

GroupRecord FullRecord() {
  GroupRecord record;
  record.generation = 7;
  record.incarnations = {0, 42, std::numeric_limits<uint64_t>::max()};
  CloseIntent intent;
  intent.number = 3;
  intent.kind = CloseIntent::Kind::kReplace;
  intent.rank = 2;
  intent.sequence = 41;
  intent.timeout = absl::Seconds(90);
  intent.wanted = "backend: 'gloo' here, 'reference' \"wanted\"\nhere";
  record.intent = intent;
  record.cause = absl::UnavailableError("rank 3 (host b, pid 812) was lost: killed by signal 9");
  return record;
}

void ExpectEqual(const GroupRecord& got, const GroupRecord& want) {
  EXPECT_EQ(got.generation, want.generation);
  EXPECT_EQ(got.incarnations, want.incarnations);
  EXPECT_EQ(got.cause, want.cause);
  ASSERT_EQ(got.intent.has_value(), want.intent.has_value());
  if (!want.intent.has_value()) return;
  EXPECT_EQ(got.intent->number, want.intent->number);
  EXPECT_EQ(got.intent->kind, want.intent->kind);
  EXPECT_EQ(got.intent->rank, want.intent->rank);
  EXPECT_EQ(got.intent->sequence, want.intent->sequence);
  EXPECT_EQ(got.intent->timeout, want.intent->timeout);
  EXPECT_EQ(got.intent->wanted, want.intent->wanted);
}

// What came back from damaged text is an error or a record that survives its own round trip; never
// a crash.
void ExpectNoHarm(const std::string& text) {
  const absl::StatusOr<GroupRecord> record = GroupRecord::Decode(text);
  if (!record.ok()) {
    EXPECT_EQ(record.status().code(), absl::StatusCode::kDataLoss) << text;
    return;
  }
  const absl::StatusOr<GroupRecord> again = GroupRecord::Decode(record->Encode());
  ASSERT_TRUE(again.ok()) << text;
  ExpectEqual(*again, *record);
}

TEST(GroupRecordTest, ACauseThatBeginsWithARankIsThatRanksFault) {
  const auto at_fault = [](absl::string_view cause) {
    GroupRecord record;
    record.cause = absl::InternalError(cause);
    return record.RankAtFault();
  };
  EXPECT_EQ(at_fault("rank 1: label 17 out of range"), 1);
  EXPECT_EQ(at_fault("rank 12 left: \"rank 3: x\""), 12);
  EXPECT_EQ(at_fault("rank 3 (host b, pid 812) was lost: killed by signal 9"), 3);
  EXPECT_EQ(at_fault("rank 2 (host a, pid 7) was told to stop by signal 15 (Terminated)"), 2);
  for (const char* cause :
       {"", "rank ", "rank 1", "rank x: y", "rank -1: y", "rank 99999999999: y", "ranks 1: y",
        "rank 1, rank 2 did not come", "rank 1 and rank 2 did not come",
        "rank 0 closed after #41 and rank 1 closed after #40 of 'train/1': the ranks did not",
        "rank 0 closed after #41, and rank 1 was in all_reduce #42",
        "rank 0 could not connect 'train/1': rank 2 did not come",
        "lost contact with rank 2: it closed the connection (seen by rank 0)",
        "rank 1: the ranks called different operations: rank 0 barrier, rank 1 broadcast of f32[1]",
        "barrier #1 of train/1 did not finish within 5s on rank 0"}) {
    EXPECT_EQ(at_fault(cause), std::nullopt) << cause;
  }
  EXPECT_EQ(GroupRecord().RankAtFault(), std::nullopt);
}

TEST(GroupRecordTest, OnlyAnEndUnderTheGroupIsNoWayToEndWell) {
  const auto blames_an_end = [](const std::string& message) {
    GroupRecord record;
    record.cause = absl::InternalError(message);
    return record.BlamesAnEnd();
  };
  EXPECT_TRUE(blames_an_end("rank 1 (host b, pid 812) exited while its groups were alive"));
  EXPECT_TRUE(blames_an_end("rank 1 (host b, pid 812) was told to stop by signal 15 (Terminated)"));
  EXPECT_TRUE(blames_an_end("rank 12 destroyed its pool while it held group a/1"));
  EXPECT_TRUE(blames_an_end("rank 3 (host b, pid 812) was lost: exited with code 0"));
  for (const char* cause :
       {"", "rank 1 left: \"rank 2 exited while x\"", "rank 1: exited while x", "rank 1 exited",
        "rank 1 and rank 2 exited while x", "rank 1 (host b, pid 812) took its time",
        "rank 1 (host b, pid 812) left: rank 1 left: \"rank 2 (host c, pid 9) was lost: x\""}) {
    EXPECT_FALSE(blames_an_end(cause)) << cause;
  }
  EXPECT_FALSE(GroupRecord().BlamesAnEnd());
}

TEST(GroupRecordTest, ARecordComesBackAsItWasWritten) {
  const absl::StatusOr<GroupRecord> full = GroupRecord::Decode(FullRecord().Encode());
  ASSERT_TRUE(full.ok()) << full.status();
  ExpectEqual(*full, FullRecord());

  GroupRecord bare;
  bare.generation = 1;
  const absl::StatusOr<GroupRecord> decoded = GroupRecord::Decode(bare.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectEqual(*decoded, bare);
}

TEST(GroupRecordTest, AnyTimeoutCanBeWrittenAndAddedToATime) {
  const struct {
    absl::Duration timeout, read;
  } cases[] = {
      {absl::Microseconds(1), absl::Milliseconds(1)},  // never shorter than it was
      {-absl::Seconds(1), absl::ZeroDuration()},
      {absl::InfiniteDuration(), absl::Hours(100 * 365 * 24)},
  };
  for (const auto& c : cases) {
    GroupRecord record = FullRecord();
    record.intent->timeout = c.timeout;
    const absl::StatusOr<GroupRecord> read = GroupRecord::Decode(record.Encode());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->intent->timeout, c.read);
  }
}

TEST(GroupRecordTest, EveryCodeOfACauseComesBack) {
  for (int code = 1; code <= 16; ++code) {
    GroupRecord record;
    record.cause = absl::Status(static_cast<absl::StatusCode>(code), absl::StrCat("code ", code));
    const absl::StatusOr<GroupRecord> decoded = GroupRecord::Decode(record.Encode());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->cause, record.cause);
  }
}

TEST(GroupRecordTest, ARecordIsOneLine) {
  EXPECT_THAT(FullRecord().Encode(), Not(HasSubstr("\n")));
}

TEST(GroupRecordTest, EveryTruncationIsDataLoss) {
  const std::string text = FullRecord().Encode();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(GroupRecord::Decode(text.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << text.substr(0, size);
  }
  EXPECT_EQ(GroupRecord::Decode(text + "}").status().code(), absl::StatusCode::kDataLoss);
}

TEST(GroupRecordTest, GarbageIsDataLossAndTheMessageSaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "not a JSON object"},
      {"null", "not a JSON object"},
      {"[1,2]", "not a JSON object"},
      {"\xff\xfe", "not a JSON object"},
      {R"({"incarnations":[]})", "no 'generation'"},
      {R"({"generation":1})", "no 'incarnations'"},
      {R"({"generation":"1","incarnations":[]})", "'generation' is not an integer"},
      {R"({"generation":1.5,"incarnations":[]})", "'generation' is not an integer"},
      {R"({"generation":-1,"incarnations":[]})", "'generation' is -1"},
      {R"({"generation":18446744073709551615,"incarnations":[]})",
       "'generation' is not an integer"},
      {R"({"generation":9223372036854775807,"incarnations":[]})",
       "'generation' is 9223372036854775807"},
      {R"({"generation":1,"incarnations":{}})", "'incarnations' is not an array"},
      {R"({"generation":1,"incarnations":[-1]})", "an incarnation is not an unsigned integer"},
      {R"({"generation":1,"incarnations":["x"]})", "an incarnation is not an unsigned integer"},
      {R"({"generation":1,"incarnations":[],"intent":null})", "'intent' is not an object"},
      {R"({"generation":1,"incarnations":[],"intent":{}})", "no 'number'"},
      {R"({"generation":1,"incarnations":[],"intent":{"number":1,)"
       R"("replace":0,"rank":4294967296,"sequence":0,"wanted":""}})",
       "'rank' is 4294967296"},
      {R"({"generation":1,"incarnations":[],"intent":{"number":1,)"
       R"("replace":2,"rank":0,"sequence":0,"wanted":""}})",
       "'replace' is 2"},
      {R"({"generation":1,"incarnations":[],"cause":{"code":0,"message":"fine"}})",
       "'cause' has the code 0"},
      {R"({"generation":1,"incarnations":[],"cause":{"code":99,"message":"x"}})",
       "'cause' has the code 99"},
      {R"({"generation":1,"incarnations":[],"cause":{"code":1,"message":7}})",
       "'message' is not a string"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = GroupRecord::Decode(test.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << test.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("malformed")) << test.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.message)) << test.text;
  }
}

TEST(GroupRecordTest, DeepNestingDoesNotExhaustTheStack) {
  ExpectNoHarm(std::string(1 << 20, '['));
  ExpectNoHarm(absl::StrCat(R"({"generation":1,"incarnations":)", std::string(1 << 18, '['),
                            std::string(1 << 18, ']'), "}"));
}

TEST(GroupRecordTest, AnyDamageIsSurvived) {
  const std::string text = FullRecord().Encode();
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = text;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        default:
          damaged.insert(at, text.substr(random() % text.size(), random() % 12));
          break;
      }
      if (damaged.empty()) break;
    }
    ExpectNoHarm(damaged);
  }
}

TEST(GroupRecordTest, TextThatIsNotUtf8IsCarriedWithItsReadablePart) {
  GroupRecord record;
  record.cause = absl::InternalError("weights_\xff\xfe.bin is corrupt");
  const absl::StatusOr<GroupRecord> decoded = GroupRecord::Decode(record.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->cause.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(decoded->cause.message()), HasSubstr("weights_"));
  EXPECT_THAT(std::string(decoded->cause.message()), HasSubstr(".bin is corrupt"));
  ExpectNoHarm(decoded->Encode());
}

// L8: one bounded record per name, whatever a user's message is.
TEST(GroupRecordTest, ALongCauseIsCutSoThatTheRecordStaysBounded) {
  GroupRecord record;
  record.cause =
      absl::InternalError(absl::StrCat("it began like this", std::string(10 << 20, 'x')));
  CloseIntent intent;
  intent.wanted = std::string(10 << 20, 'w');
  record.intent = intent;
  const std::string text = record.Encode();
  EXPECT_LT(text.size(), 32 << 10);
  const absl::StatusOr<GroupRecord> decoded = GroupRecord::Decode(text);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(std::string(decoded->cause.message()), HasSubstr("it began like this"));
  EXPECT_THAT(std::string(decoded->cause.message()), HasSubstr("(10485778 bytes)"));
  // All ranks read the same: what was cut once is not cut again.
  EXPECT_EQ(GroupRecord::Decode(decoded->Encode())->cause, decoded->cause);
}

TEST(CloseVoteTest, AVoteComesBackAsItWasWritten) {
  CloseVote vote;
  vote.sequence = 41;
  vote.holders = "trainer.cc:88, \"a\xffz\"";
  const absl::StatusOr<CloseVote> decoded = CloseVote::Decode(vote.Encode());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->sequence, 41);
  EXPECT_TRUE(absl::StartsWith(decoded->holders, "trainer.cc:88, \"a")) << decoded->holders;
  EXPECT_EQ(CloseVote::Decode(CloseVote().Encode())->holders, "");
}

TEST(CloseVoteTest, EveryTruncationAndGarbageIsDataLoss) {
  const std::string text = CloseVote{41, "trainer.cc:88"}.Encode();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(CloseVote::Decode(text.substr(0, size)).status().code(), absl::StatusCode::kDataLoss);
  }
  for (const char* garbage :
       {"x", "{}", R"({"sequence":-1,"holders":""})", R"({"sequence":1,"holders":[]})"}) {
    EXPECT_EQ(CloseVote::Decode(garbage).status().code(), absl::StatusCode::kDataLoss) << garbage;
  }
}

// L8: generations, names and intents never see each other's keys, also where a name holds a slash
// or a number.
TEST(KeysTest, NoTwoGatherKeysAreTheSame) {
  std::vector<std::string> keys;
  for (const char* name : {"a", "a/1", "a/1/1", "1", "meet", "close/a"}) {
    keys.push_back(GroupRecordKey(name));
    keys.push_back(MeetKey(name));
    for (int generation : {1, 2, 11}) {
      keys.push_back(ConnectedKey(name, generation));
      for (int intent : {1, 2, 11}) keys.push_back(VoteKey(name, generation, intent));
    }
  }
  std::vector<std::string> unique = keys;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  EXPECT_THAT(unique, SizeIs(keys.size()));
}

}  // namespace
}  // namespace muster
