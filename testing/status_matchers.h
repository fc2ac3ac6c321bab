// Assertions on absl::Status and absl::StatusOr that print the status and nothing else.
//
//   ASSERT_OK(group.Barrier());
//   EXPECT_OK(pool->Acquire(spec));
//   ASSERT_OK_AND_ASSIGN(GroupLease lease, pool->Acquire(spec));
#ifndef MUSTER_TESTING_STATUS_MATCHERS_H_
#define MUSTER_TESTING_STATUS_MATCHERS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace muster {
namespace testing {
namespace internal {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// The expression is not shown: what it says is in the code, what went wrong is in the status.
template <class T>
::testing::AssertionResult IsOk(const char* /*expression*/, const T& value) {
  const absl::Status status = StatusOf(value);
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.ToString(absl::StatusToStringMode::kDefault);
}

}  // namespace internal
}  // namespace testing
}  // namespace muster

#ifndef ASSERT_OK
#define ASSERT_OK(expression) ASSERT_PRED_FORMAT1(::muster::testing::internal::IsOk, expression)
#endif
#ifndef EXPECT_OK
#define EXPECT_OK(expression) EXPECT_PRED_FORMAT1(::muster::testing::internal::IsOk, expression)
#endif
#ifndef ASSERT_OK_AND_ASSIGN
#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  MUSTER_ASSERT_OK_AND_ASSIGN_AT_(__LINE__, declaration, expression)
#define MUSTER_ASSERT_OK_AND_ASSIGN_AT_(line, declaration, expression) \
  MUSTER_ASSERT_OK_AND_ASSIGN_ID_(line, declaration, expression)
#define MUSTER_ASSERT_OK_AND_ASSIGN_ID_(line, declaration, expression) \
  auto muster_status_or_##line = (expression);                         \
  ASSERT_OK(muster_status_or_##line);                                  \
  declaration = *std::move(muster_status_or_##line)  // NOLINT(bugprone-macro-parentheses)
#endif

#endif  // MUSTER_TESTING_STATUS_MATCHERS_H_
