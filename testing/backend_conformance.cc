#include "muster/testing/backend_conformance.h"

#include <vector>

#include "absl/types/span.h"
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

}  // namespace muster::testing
