// What the checks say of themselves: what they checked, what they could not, and whose fault it is.
#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "muster/backends/reference/reference_backend.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/testing/backend_conformance.h"

namespace muster::testing {
namespace {

// As on a machine that has no time for a rank: the first two times it comes late.
class LateBackend : public ReferenceBackend {
 public:
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) override {
    if (context.rank == 1 && late_++ < 2) absl::SleepFor(context.deadline - MonotonicNow());
    return ReferenceBackend::Connect(context);
  }

 private:
  std::atomic<int> late_{0};
};

TEST(ConformanceChecksTest, ARankThatCameTooLateIsNotTheBackendsFault) {
  LateBackend backend;
  ConformanceTarget target;
  target.backend = &backend;
  target.ranks = 4;
  for (const ConformanceCheck& check : ConformanceChecks()) {
    if (absl::string_view(check.name) != "AMissingRankIsNamedAtTheDeadline") continue;
    const absl::Status kept = check.run(target);
    EXPECT_TRUE(kept.ok()) << kept;
  }
}

// Offers next to nothing.
class PoorBackend : public ReferenceBackend {
 public:
  absl::string_view name() const override { return "poor"; }
  Capabilities capabilities() const override { return {Capability::kBarrier}; }
};

TEST(ConformanceChecksTest, WhatChecksNothingSaysSoAndWhy) {
  PoorBackend backend;
  ConformanceTarget target;
  target.backend = &backend;
  std::map<std::string, absl::Status> results;
  for (const ConformanceCheck& check : ConformanceChecks()) {
    for (absl::string_view needs : {"Broadcast", "AllGather", "AllToAll", "Sends", "Split"}) {
      if (absl::StartsWith(check.name, needs)) results[check.name] = check.run(target);
    }
  }
  EXPECT_GE(results.size(), 4u);
  for (const auto& [name, result] : results) {
    EXPECT_TRUE(ChecksNothing(result)) << name << ": " << result;
    EXPECT_TRUE(absl::StrContains(result.message(), "does not offer")) << result;
  }
  EXPECT_FALSE(ChecksNothing(absl::OkStatus()));
  EXPECT_FALSE(ChecksNothing(absl::UnimplementedError("nothing to check")));
}

TEST(ConformanceChecksTest, TooFewRanksCheckNothing) {
  ReferenceBackend backend;
  ConformanceTarget target;
  target.backend = &backend;
  target.ranks = 1;
  for (const ConformanceCheck& check : ConformanceChecks()) {
    if (absl::string_view(check.name) != "SendMeetsReceive") continue;
    const absl::Status result = check.run(target);
    EXPECT_TRUE(ChecksNothing(result)) << result;
    EXPECT_TRUE(absl::StrContains(result.message(), "it takes 2 ranks")) << result;
  }
}

TEST(ConformanceChecksTest, ACapabilityThatIsLostOrGainedIsFound) {
  PoorBackend backend;
  EXPECT_TRUE(CheckCapabilities(backend, "barrier").ok());
  EXPECT_TRUE(absl::StrContains(CheckCapabilities(backend, "all_reduce,barrier").message(),
                                "offers barrier, expected was all_reduce, barrier"));
  EXPECT_TRUE(absl::StrContains(CheckCapabilities(backend, "").message(),
                                "offers barrier, expected was nothing"));
  EXPECT_TRUE(
      CheckCapabilities(ReferenceBackend(), ReferenceBackend().capabilities().ToString()).ok());
}

TEST(ConformanceChecksTest, ABackendMayOfferNothing) {
  class EmptyBackend : public PoorBackend {
   public:
    Capabilities capabilities() const override { return {}; }
  };
  EXPECT_TRUE(CheckCapabilities(EmptyBackend(), "").ok());
  EXPECT_FALSE(CheckCapabilities(EmptyBackend(), "barrier").ok());
}

TEST(ConformanceChecksTest, ACapabilityThatThereIsNotIsAnErrorOfItsOwn) {
  const absl::Status status = CheckCapabilities(PoorBackend(), "barrier,all_reduced");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "unknown capability \"all_reduced\"")) << status;
}

TEST(ConformanceChecksTest, EveryCheckHasANameOfItsOwn) {
  std::map<std::string, int> names;
  for (const ConformanceCheck& check : ConformanceChecks()) ++names[check.name];
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
}

}  // namespace
}  // namespace muster::testing
