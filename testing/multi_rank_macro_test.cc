// What the macro was given arrives where it takes effect. BUILD.bazel gives it all this.
#include "gtest/gtest.h"
#include "muster/testing/multi_rank_test.h"

#ifndef OF_COPTS
#error "copts do not reach the sources"
#endif
#ifndef OF_DEFINES
#error "defines do not reach the sources"
#endif
#ifndef OF_LOCAL_DEFINES
#error "local_defines do not reach the sources"
#endif
// Found in this folder, by the angle brackets only in an `includes`.
#if !__has_include(<multi_rank_test.h>)
#error "includes do not reach the sources"
#endif

namespace muster {
namespace {

TEST(MultiRankMacroTest, WhatIsForTheSourcesReachedThem) { EXPECT_EQ(OF_DEFINES, 2); }

}  // namespace
}  // namespace muster
