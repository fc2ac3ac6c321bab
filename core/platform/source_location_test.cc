#include "muster/core/platform/source_location.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

std::string CalledFrom(SourceLocation where = SourceLocation::Current()) {
  return where.ToString();
}

TEST(SourceLocationTest, AsADefaultArgumentIsThePlaceOfTheCallWithoutFolders) {
  const int line = __LINE__ + 1;
  EXPECT_EQ(CalledFrom(), absl::StrCat("source_location_test.cc:", line));
}

TEST(SourceLocationTest, OfNowhereSaysSo) {
  EXPECT_EQ(SourceLocation().ToString(), "unknown place");
}

}  // namespace
}  // namespace muster
