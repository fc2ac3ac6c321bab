#include "muster/core/store/client_core.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/core/platform/manual_executor.h"

namespace muster::store_internal {
namespace {

// A server that does not answer.
class Recorder final : public ClientCore::Channel {
 public:
  void Send(Request request) override { requests.push_back(std::move(request)); }
  std::vector<Request> requests;
};

class ClientCoreTest : public testing::Test {
 protected:
  void SetUp() override { core_->SetChannel(channel_); }

  void GatherWithin(absl::Duration timeout) {
    core_->GatherAmong("meet/train", {/*rank=*/1, /*size=*/2, {}, ""}, "",
                       executor_.Now() + timeout,
                       [this](absl::StatusOr<GatherResult> result) { answer_ = result.status(); });
  }

  ManualExecutor executor_;
  const std::shared_ptr<Recorder> channel_ = std::make_shared<Recorder>();
  const std::shared_ptr<ClientCore> core_ = std::make_shared<ClientCore>(&executor_);
  std::optional<absl::Status> answer_;
};

// The server's clock may say that there is time: the contribution would wait for others, and meet
// them although nobody is there any more.
TEST_F(ClientCoreTest, AGatherThatIsGivenUpLeavesNoContributionBehind) {
  GatherWithin(absl::Seconds(1));
  executor_.AdvanceBy(absl::Seconds(3));
  ASSERT_TRUE(answer_.has_value());
  EXPECT_TRUE(absl::IsDeadlineExceeded(*answer_)) << *answer_;
  ASSERT_EQ(channel_->requests.size(), 2);
  EXPECT_EQ(channel_->requests[1].type, Request::Type::kWithdraw);
  EXPECT_EQ(channel_->requests[1].key, "meet/train");
  EXPECT_EQ(channel_->requests[1].rank, 1);
}

TEST_F(ClientCoreTest, OtherCallsThatAreLateTakeNothingBack) {
  core_->Get("a", executor_.Now() + absl::Seconds(1),
             [this](absl::StatusOr<Entry> entry) { answer_ = entry.status(); });
  executor_.AdvanceBy(absl::Seconds(3));
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(channel_->requests.size(), 1);
}

TEST_F(ClientCoreTest, AGatherThatWasAnsweredIsNotTakenBack) {
  GatherWithin(absl::Seconds(1));
  Response response;
  response.id = channel_->requests[0].id;
  core_->Deliver(std::move(response));
  executor_.AdvanceBy(absl::Seconds(3));
  EXPECT_EQ(answer_, absl::OkStatus());
  EXPECT_EQ(channel_->requests.size(), 1);
}

}  // namespace
}  // namespace muster::store_internal
