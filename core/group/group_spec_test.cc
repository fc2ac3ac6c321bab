#include "muster/core/group/group_spec.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const GroupSpec& spec) { return std::string(spec.Validate().message()); }

TEST(GroupSpecTest, TheDefaultsAreValid) { EXPECT_TRUE(GroupSpec().Validate().ok()); }

TEST(GroupSpecTest, ANameIsShortAndPlainBecauseItBecomesAKeyAndAPath) {
  GroupSpec spec;
  for (const char* name : {"train", "a", "A.b_c-9"}) {
    spec.name = name;
    EXPECT_TRUE(spec.Validate().ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("a b"), std::string(65, 'x')}) {
    spec.name = name;
    EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.name is \"" + name + "\""));
  }
  spec.name = "a\n\x1b[31mü";
  EXPECT_THAT(Refusal(spec), HasSubstr(R"(GroupSpec.name is "a\n\x1b[31m\xc3\xbc": it must)"));
  spec.name = std::string(5'000'000, 'x');
  EXPECT_LT(Refusal(spec).size(), 300u);
  spec = GroupSpec();
  spec.backend = std::string(1'000'000, 'x');
  EXPECT_THAT(Refusal(spec), HasSubstr("(1000000 bytes): it must be the name of a backend"));
}

TEST(GroupSpecTest, EachBadFieldIsNamedWithItsValue) {
  GroupSpec spec;
  spec.backend = "";
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.backend is empty"));
  spec = GroupSpec();
  spec.device = Device::Cuda(-1);
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.device is cuda:-1"));
  spec.device = Device{Device::Type::kCpu, 3};
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.device is cpu with the index 3"));
  spec.device = Device{static_cast<Device::Type>(9), 0};
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.device has the type 9"));
  spec = GroupSpec();
  spec.setup_timeout = absl::ZeroDuration();
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.setup_timeout is 0"));
  spec = GroupSpec();
  spec.operation_timeout = absl::Seconds(-1);
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.operation_timeout is -1s"));
  spec = GroupSpec();
  spec.cause_window = absl::InfiniteDuration();
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.cause_window is inf"));
}

TEST(GroupSpecTest, MembersAreDifferentRanksAndIdentity) {
  GroupSpec spec;
  spec.members = {2, -1};
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.members has rank -1"));
  spec.members = {2, 0, 2};
  EXPECT_THAT(Refusal(spec), HasSubstr("GroupSpec.members has rank 2 twice"));
  spec.members = {2, 0};
  EXPECT_EQ(spec.DifferenceFrom(GroupSpec()), "members is 'all' there and '2, 0' is wanted");
}

TEST(GroupSpecTest, TimeoutsAndTheDevicesIndexAreNotIdentity) {
  GroupSpec a;
  GroupSpec b;
  b.operation_timeout = absl::Hours(1);
  b.device.index = 0;
  EXPECT_EQ(a.DifferenceFrom(b), "");
}

TEST(GroupSpecTest, WhatDiffersIsSaidFieldByField) {
  GroupSpec live;
  live.backend = "gloo";
  GroupSpec wanted;
  wanted.backend = "reference";
  wanted.backend_options["interface"] = "lo";
  EXPECT_EQ(wanted.DifferenceFrom(live),
            "backend is 'gloo' there and 'reference' is wanted; backend_options['interface'] is "
            "not set there and 'lo' is wanted");
}

}  // namespace
}  // namespace muster
