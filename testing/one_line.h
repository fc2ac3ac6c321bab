// GoogleTest's messages have several lines, aligned by spaces; who quotes one needs a single line.
#ifndef MUSTER_TESTING_ONE_LINE_H_
#define MUSTER_TESTING_ONE_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {
namespace testing {

// Without ADD_FAILURE's "Failed", each run of white space as one space, and cut after `limit` bytes
// with "..." for the rest.
std::string OneLine(absl::string_view message, size_t limit = 300);

}  // namespace testing
}  // namespace muster

#endif  // MUSTER_TESTING_ONE_LINE_H_
