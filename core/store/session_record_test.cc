#include "muster/core/store/session_record.h"

#include <random>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

SessionRecord Lost() {
  SessionRecord record;
  record.rank = 3;
  record.incarnation = 0xfedcba9876543210u;
  record.host = "b";
  record.pid = 812;
  record.liveness = SessionRecord::Liveness::kLost;
  record.reason = "killed by signal 9";
  return record;
}

TEST(SessionRecordTest, SaysWhoAndWhatHappened) {
  SessionRecord record = Lost();
  EXPECT_EQ(record.Who(), "rank 3 (host b, pid 812)");
  EXPECT_EQ(record.WhatHappened(), "rank 3 (host b, pid 812) was lost: killed by signal 9");
  record.liveness = SessionRecord::Liveness::kLeft;
  record.reason = "";
  EXPECT_EQ(record.WhatHappened(), "rank 3 (host b, pid 812) left");
  record.reason = "label 17 out of range";
  EXPECT_EQ(record.WhatHappened(), "rank 3 (host b, pid 812) left: label 17 out of range");
  EXPECT_EQ(SessionKey(3), "session/3");
}

TEST(SessionRecordTest, OfARankThatNeverConnectedNamesTheRankAlone) {
  SessionRecord record = Lost();
  record.host = "";
  record.pid = 0;
  EXPECT_EQ(record.WhatHappened(), "rank 3 was lost: killed by signal 9");
}

TEST(SessionRecordTest, DecodeGivesBackWhatEncodeWasGivenWhateverTheTextsHold) {
  for (const std::string& text :
       {std::string(), std::string("plain"), std::string("a \"quoted\" \\ word\n\t\" \""),
        std::string("\0\x01\xff\x80 x", 6), std::string("h\xc3\xb6st"), std::string(5000, '"')}) {
    for (const auto liveness : {SessionRecord::Liveness::kLive, SessionRecord::Liveness::kLeft,
                                SessionRecord::Liveness::kLost}) {
      SessionRecord record = Lost();
      record.host = text;
      record.reason = text;
      record.liveness = liveness;
      const absl::StatusOr<SessionRecord> decoded = SessionRecord::Decode(record.Encode());
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->rank, 3);
      EXPECT_EQ(decoded->incarnation, record.incarnation);
      EXPECT_EQ(decoded->pid, 812);
      EXPECT_EQ(decoded->host, text);
      EXPECT_EQ(decoded->reason, text);
      EXPECT_EQ(decoded->liveness, liveness);
    }
  }
}

TEST(SessionRecordTest, DecodeRefusesEveryTruncationAndExtension) {
  const std::string whole = Lost().Encode();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(SessionRecord::Decode(whole.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(SessionRecord::Decode(whole + " ").ok());
  EXPECT_FALSE(SessionRecord::Decode("muster-session/1 -1 0 0 live \"\" \"\"").ok());
  EXPECT_FALSE(SessionRecord::Decode("muster-session/1 0 0 0 dead \"\" \"\"").ok());
  EXPECT_FALSE(SessionRecord::Decode("muster-session/2 0 0 0 live \"\" \"\"").ok());
}

TEST(SessionRecordTest, DecodeSurvivesGarbage) {
  std::mt19937 random(7);
  const std::string whole = Lost().Encode();
  for (int i = 0; i < 20000; ++i) {
    std::string text = i % 2 == 0 ? whole : std::string(random() % 100, 'x');
    for (int change = 0; change < 4 && !text.empty(); ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    SessionRecord::Decode(text).status().IgnoreError();
  }
}

}  // namespace
}  // namespace muster
