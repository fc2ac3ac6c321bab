#include "muster/core/store/store_server_statistics.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(StoreServerStatisticsTest, SaysWhatAPersonShouldKnowAndNothingOfAnOrdinaryJob) {
  StoreServerStatistics statistics;
  statistics.connections = 9;
  statistics.sessions = 4;
  statistics.gone = 3;
  statistics.not_let_in = 2;
  EXPECT_EQ(statistics.Refused(), "");
  statistics.wrong_token = 2;
  statistics.no_greeting = 1;
  statistics.over_limit = 7;
  EXPECT_EQ(statistics.Refused(),
            "1 connection that spoke another protocol, 2 connections that did not know the job's "
            "token, 7 requests beyond a limit");
}

}  // namespace
}  // namespace muster
