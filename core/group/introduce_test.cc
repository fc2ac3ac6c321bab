#include "muster/core/group/introduce.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NamedBackend final : public Backend {
 public:
  NamedBackend(std::string name, Device::Type works_on) : name_(std::move(name)), on_(works_on) {}
  absl::string_view name() const override { return name_; }
  Capabilities capabilities() const override { return {}; }
  absl::Status Check(Device device, const std::map<std::string, std::string>&) const override {
    if (device.type == on_) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(name_, " does not work on ", device.ToString()));
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext&) override {
    return absl::UnimplementedError("only a name");
  }

 private:
  const std::string name_;
  const Device::Type on_;
};

class IntroduceTest : public ::testing::Test {
 protected:
  IntroduceTest() {
    for (const char* name : {"reference", "zeta", "alpha", "gloo"}) Add(name, Device::Type::kCpu);
    for (const char* name : {"nccl", "another"}) Add(name, Device::Type::kCuda);
  }
  void Add(const std::string& name, Device::Type on) {
    backends_.Register(name, std::make_unique<NamedBackend>(name, on), __FILE__, __LINE__);
  }
  Introduction Of(const GroupSpec& spec) {
    return Introduce(Introduction(), spec, backends_, pools_);
  }

  BackendRegistry backends_;
  LivePools pools_;
};

TEST_F(IntroduceTest, OffersWhatWorksOnTheDeviceTheBestFirst) {
  GroupSpec spec;
  EXPECT_THAT(BackendOffers(backends_, spec), ElementsAre("gloo", "reference", "alpha", "zeta"));
  spec.device = Device::Cuda(1);
  EXPECT_THAT(BackendOffers(backends_, spec), ElementsAre("nccl", "another"));
}

TEST_F(IntroduceTest, SaysWhatIsWantedAndKeepsWhoItIs) {
  GroupSpec spec;
  spec.backend = "gloo";
  Introduction self;
  self.incarnation = 7;
  const Introduction introduction = Introduce(self, spec, backends_, pools_);
  EXPECT_EQ(introduction.incarnation, 7u);
  EXPECT_EQ(introduction.identity, spec.Identity());
  EXPECT_TRUE(introduction.refusal.ok()) << introduction.refusal;
}

TEST_F(IntroduceTest, ComesWithTheReasonWhenItsBackendIsMissingOrDoesNotWorkHere) {
  GroupSpec spec;
  spec.backend = "missing";
  EXPECT_EQ(Of(spec).refusal.code(), absl::StatusCode::kNotFound);
  spec.backend = "nccl";
  EXPECT_THAT(std::string(Of(spec).refusal.message()), HasSubstr("nccl does not work on cpu"));
}

TEST_F(IntroduceTest, WhereAutoHasNothingToChooseFromTheReasonIsSaid) {
  GroupSpec spec;
  spec.name = "train";
  const BackendRegistry none;
  const absl::Status unlinked = Introduce(Introduction(), spec, none, pools_).refusal;
  EXPECT_EQ(unlinked.code(), absl::StatusCode::kNotFound) << unlinked;
  EXPECT_THAT(std::string(unlinked.message()),
              HasSubstr("no backend is linked into this program: add @muster//backends:gloo"));

  BackendRegistry cpu_only;
  cpu_only.Register("reference", std::make_unique<NamedBackend>("reference", Device::Type::kCpu),
                    __FILE__, __LINE__);
  spec.device = Device::Cuda(0);
  EXPECT_EQ(Introduce(Introduction(), spec, cpu_only, pools_).refusal,
            absl::FailedPreconditionError("no backend of this program serves group 'train' on "
                                          "cuda:0: reference does not work on cuda:0"));
}

TEST_F(IntroduceTest, RefusesADeviceWithResidueWhateverTheBackend) {
  LiveGroup left;
  left.name = "train";
  left.generation = 1;
  left.device = "cuda:1";
  left.residue = "nccl did not give back 1 device object";
  const std::shared_ptr<const LiveGroup> residue = pools_.LeaveBehind(left);
  GroupSpec spec;
  spec.device = Device::Cuda(1);
  for (const char* backend : {"auto", "another"}) {
    spec.backend = backend;
    EXPECT_THAT(std::string(Of(spec).refusal.message()), HasSubstr("'train/1' left residue"));
  }
  spec.device = Device::Cuda(0);
  EXPECT_TRUE(Of(spec).refusal.ok());
}

TEST_F(IntroduceTest, AnEarlierRefusalStays) {
  Introduction self;
  self.refusal = absl::AbortedError("armed");
  GroupSpec spec;
  spec.backend = "missing";
  EXPECT_EQ(Introduce(self, spec, backends_, pools_).refusal, absl::AbortedError("armed"));
}

}  // namespace
}  // namespace muster
