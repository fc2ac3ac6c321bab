#include "muster/testing/backend_conformance.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/testing/backend_conformance_world.h"

namespace muster::testing {

absl::Span<const ConformanceCheck> ConformanceChecks() {
  static const auto* const all = [] {
    auto* checks = new std::vector<ConformanceCheck>;
    for (absl::Span<const ConformanceCheck> part :
         {conformance::ConnectChecks(), conformance::CollectiveChecks(), conformance::PeerChecks(),
          conformance::LifecycleChecks()}) {
      checks->insert(checks->end(), part.begin(), part.end());
    }
    return checks;
  }();
  return *all;
}

bool ChecksNothing(const absl::Status& result) {
  return result.GetPayload(conformance::kNothingToCheck).has_value();
}

absl::Status CheckCapabilities(const Backend& backend, absl::string_view expected) {
  const absl::StatusOr<Capabilities> wanted = Capabilities::Parse(expected);
  if (!wanted.ok()) return wanted.status();
  const Capabilities offered = backend.capabilities();
  if (offered == *wanted) return absl::OkStatus();
  return conformance::Broken("the backend offers ", offered.ToString(), ", expected was ",
                             wanted->ToString());
}

}  // namespace muster::testing
