#include "gtest/gtest.h"
#include "muster/tools/bazel/include_prefix/answer.h"

namespace muster {
namespace {

TEST(IncludePrefix, HeaderIsFoundUnderMuster) { EXPECT_EQ(Answer(), 42); }

}  // namespace
}  // namespace muster
