// Lets the ranks of a multi-rank test begin each test together, though no group exists yet.
#ifndef MUSTER_TESTING_TEST_BARRIER_H_
#define MUSTER_TESTING_TEST_BARRIER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace testing {

// Where each rank writes its events: set for the ranks by the launcher of the test.
inline constexpr absl::string_view kEventsVariable = "MUSTER_TEST_EVENTS";
std::string EventsPath(absl::string_view folder, int rank);

// Returns when every rank has begun as many tests as this one: the ranks run the same ones in the
// same order, and what a rank held in the test before is gone when it begins the next. Reads the
// ranks' events; OK at once where there are none (a test without our main()). A rank that did not
// come to an earlier test in time, and has not since, is not waited for again. DeadlineExceeded and
// Aborted name the rank and the test it is in.
absl::Status WaitForTest(const Environment& environment, absl::Duration timeout);

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_TEST_BARRIER_H_
