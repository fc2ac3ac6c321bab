// Whether a backend keeps the contract of core/collective/communicator.h and backend.h: one check a
// promise. The ranks are threads of this process, so a backend is all that it needs.
//
// In a BUILD file, one line tells what a backend does not keep yet, in this or in another
// repository:
//
//   load("@muster//testing:backend_conformance_test.bzl", "backend_conformance_test")
//   backend_conformance_test(name = "mine_conformance", backend = ":mine", ranks = [1, 2, 4])
//
// In code:
//
//   ConformanceTarget target;
//   target.backend = &backend;
//   for (const ConformanceCheck& check : ConformanceChecks()) {
//     absl::Status kept = check.run(target);   // OK, or what was seen
//     if (ChecksNothing(kept)) ...             // there was nothing to check: skipped, not passed
//   }
#ifndef MUSTER_TESTING_BACKEND_CONFORMANCE_H_
#define MUSTER_TESTING_BACKEND_CONFORMANCE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/backend.h"

namespace muster::testing {

struct ConformanceTarget {
  Backend* backend = nullptr;
  int ranks = 2;
  std::map<std::string, std::string> options;  // GroupSpec::backend_options
  // How long an abort, a cancellation or an expired deadline may take to arrive. Long enough that a
  // busy machine is not taken for a broken backend; what waits for ever is still found. Multiplied
  // by MUSTER_TIMEOUT_SCALE.
  absl::Duration bound = absl::Seconds(10);
};

struct ConformanceCheck {
  const char* name;  // "AbortWakesABlockedOperation": the promise
  absl::Status (*run)(const ConformanceTarget& target);
};

// All of them. Each is independent, connects for itself and leaves nothing behind, unless the
// backend does: a call that never returns keeps its thread.
//
// A failed check answers with FailedPrecondition and one line: "rank 1: all_reduce sum of f32[7]:
// element 3 is 9, not 6". A check of what the backend does not offer, or that needs more ranks than
// there are, answers with what ChecksNothing knows.
absl::Span<const ConformanceCheck> ConformanceChecks();

// Whether a check says that there was nothing to check; the message says why. Never of what a
// backend itself answered, whatever the code.
bool ChecksNothing(const absl::Status& result);

// OK when the backend offers what `expected` names ("all_reduce, barrier", in any order; "" for
// nothing), no less and no more: what is lost by mistake would be skipped everywhere else.
// InvalidArgument for a word that is no capability.
absl::Status CheckCapabilities(const Backend& backend, absl::string_view expected);

}  // namespace muster::testing

#endif  // MUSTER_TESTING_BACKEND_CONFORMANCE_H_
