#include "muster/core/collective/backend.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

class NoBackend : public Backend {
 public:
  absl::string_view name() const override { return "linked_in"; }
  Capabilities capabilities() const override { return {}; }
  absl::Status Check(Device, const std::map<std::string, std::string>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext&) override {
    return absl::UnavailableError("connects nothing");
  }
};

MUSTER_REGISTER_BACKEND("linked_in", NoBackend);

TEST(BackendRegistryTest, TheMacroRegistersInTheProcessesOwn) {
  absl::StatusOr<Backend*> found = BackendRegistry::Global().Find("linked_in");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->name(), "linked_in");
  EXPECT_EQ(BackendRegistry::Global().Names(), std::vector<std::string>{"linked_in"});
}

TEST(BackendRegistryTest, ARegistryOfATestIsApart) {
  BackendRegistry registry;
  EXPECT_TRUE(registry.Names().empty());
  registry.Register("b", std::make_unique<NoBackend>(), "b.cc", 1);
  registry.Register("a", std::make_unique<NoBackend>(), "a.cc", 1);
  EXPECT_EQ(registry.Names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(registry.Find("linked_in").ok());
}

TEST(BackendRegistryTest, ADuplicateIsAnErrorThatNamesBothPlacesAndNeitherWins) {
  BackendRegistry registry;
  registry.Register("gloo", std::make_unique<NoBackend>(), "backends/gloo/gloo_backend.cc", 31);
  registry.Register("gloo", std::make_unique<NoBackend>(), "mine/gloo.cc", 7);
  registry.Register("other", std::make_unique<NoBackend>(), "other.cc", 1);
  EXPECT_EQ(registry.Find("gloo").status(),
            absl::FailedPreconditionError(
                "backend \"gloo\" is registered at backends/gloo/gloo_backend.cc:31 and at "
                "mine/gloo.cc:7: rename one of them, or link only one into this program"));
  EXPECT_TRUE(registry.Find("other").ok());
}

TEST(BackendRegistryTest, AMissingOneIsNotFoundWithWhatThereIsAndTheLabelToAdd) {
  BackendRegistry registry;
  EXPECT_EQ(registry.Find("gloo").status(),
            absl::NotFoundError("no backend \"gloo\" is linked into this program, which has none: "
                                "add @muster//backends:gloo, or your own library that registers "
                                "this name, to the deps of the binary"));
  registry.Register("reference", std::make_unique<NoBackend>(), "r.cc", 1);
  registry.Register("mine", std::make_unique<NoBackend>(), "m.cc", 1);
  EXPECT_EQ(registry.Find("gloo").status(),
            absl::NotFoundError("no backend \"gloo\" is linked into this program, which has mine, "
                                "reference: add @muster//backends:gloo, or your own library that "
                                "registers this name, to the deps of the binary"));
}

TEST(BackendRegistryTest, AMistypedNameIsSentToNoLabelThatDoesNotExist) {
  BackendRegistry registry;
  registry.Register("reference", std::make_unique<NoBackend>(), "r.cc", 1);
  EXPECT_EQ(
      registry.Find("glooo").status(),
      absl::NotFoundError(
          "no backend \"glooo\" is linked into this program, which has reference: add your own "
          "library that registers this name (Muster itself has gloo and reference) to the "
          "deps of the binary"));
}

TEST(BackendRegistryTest, ANullPointerIsAnErrorThatNamesItsPlace) {
  BackendRegistry registry;
  registry.Register("empty", nullptr, "e.cc", 9);
  EXPECT_EQ(
      registry.Find("empty").status(),
      absl::FailedPreconditionError("backend \"empty\" is registered as a null pointer at e.cc:9"));
}

}  // namespace
}  // namespace muster
