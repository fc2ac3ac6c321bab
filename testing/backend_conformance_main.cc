// The test that backend_conformance_test.bzl makes: every check against the backend that is linked
// in.
//   --backend=NAME   needed only when several are linked in
//   --ranks=N
//   --capabilities=LIST   what the backend is expected to offer: all_reduce,barrier
//   --option=K=V     any number of times
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/testing/backend_conformance.h"

namespace {

using muster::BackendRegistry;
using muster::Capabilities;
using muster::testing::ConformanceCheck;
using muster::testing::ConformanceTarget;

// All tests of one suite have one fixture.
class Fixture : public ::testing::Test {};

class CheckTest : public Fixture {
 public:
  CheckTest(const ConformanceCheck& check, const ConformanceTarget& target)
      : check_(check), target_(target) {}
  void TestBody() override {
    const absl::Status kept = check_.run(target_);
    if (muster::testing::ChecksNothing(kept)) GTEST_SKIP() << kept.message();
    if (!kept.ok()) ADD_FAILURE() << kept.message();
  }

 private:
  const ConformanceCheck check_;
  const ConformanceTarget target_;
};

class CapabilitiesTest : public Fixture {
 public:
  CapabilitiesTest(const muster::Backend& backend, std::string expected)
      : backend_(backend), expected_(std::move(expected)) {}
  void TestBody() override {
    const absl::Status kept = muster::testing::CheckCapabilities(backend_, expected_);
    if (!kept.ok()) ADD_FAILURE() << kept.message();
  }

 private:
  const muster::Backend& backend_;
  const std::string expected_;
};

absl::Status ParseArguments(int argc, char** argv, ConformanceTarget& target,
                            std::optional<std::string>& capabilities) {
  std::string name;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--backend=")) {
      name = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--capabilities=")) {
      const absl::StatusOr<Capabilities> known = Capabilities::Parse(argument);
      if (!known.ok()) return known.status();
      capabilities = std::string(argument);
    } else if (absl::ConsumePrefix(&argument, "--option=")) {
      target.options.insert(
          std::pair<std::string, std::string>(absl::StrSplit(argument, absl::MaxSplits('=', 1))));
    } else if (!absl::ConsumePrefix(&argument, "--ranks=") ||
               !absl::SimpleAtoi(argument, &target.ranks) || target.ranks < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(argv[i],
                       " is none of --backend=NAME, --ranks=N (1 or more), --capabilities=LIST, "
                       "--option=KEY=VALUE"));
    }
  }
  if (name.empty()) {
    const std::vector<std::string> names = BackendRegistry::Global().Names();
    if (names.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("say which backend to test: set backend_name = \"NAME\" of "
                       "backend_conformance_test (--backend=NAME by hand); linked in are ",
                       names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    name = names[0];
  }
  absl::StatusOr<muster::Backend*> backend = BackendRegistry::Global().Find(name);
  if (!backend.ok()) return backend.status();
  if ((*backend)->name() != name) {
    return absl::InvalidArgumentError(absl::StrCat("the backend that is registered as \"", name,
                                                   "\" calls itself \"", (*backend)->name(), "\""));
  }
  target.backend = *backend;
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  absl::InitializeLog();
  ::testing::InitGoogleTest(&argc, argv);
  ConformanceTarget target;
  std::optional<std::string> capabilities;
  if (absl::Status status = ParseArguments(argc, argv, target, capabilities); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 2;
  }
  if (capabilities.has_value()) {
    ::testing::RegisterTest(
        "BackendConformance", "OffersWhatIsExpected", nullptr, nullptr, __FILE__, __LINE__,
        [&]() -> Fixture* { return new CapabilitiesTest(*target.backend, *capabilities); });
  }
  for (const ConformanceCheck& check : muster::testing::ConformanceChecks()) {
    ::testing::RegisterTest(
        "BackendConformance", check.name, nullptr, nullptr, __FILE__, __LINE__,
        [&check, target]() -> Fixture* { return new CheckTest(check, target); });
  }
  return RUN_ALL_TESTS();
}
