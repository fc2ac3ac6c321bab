#include "muster/core/platform/users_path.h"

#include "gtest/gtest.h"
#include "muster/core/platform/environment.h"

namespace muster {
namespace {

TEST(UsersPathTest, RelativePathsAreThoseOfTheUserWhoTypedThem) {
  const Environment bazel_run(Environment::Variables{{"BUILD_WORKING_DIRECTORY", "/home/me"}});
  EXPECT_EQ(UsersPath(bazel_run, "out.json"), "/home/me/out.json");
  EXPECT_EQ(UsersPath(bazel_run, "/tmp/out.json"), "/tmp/out.json");
  EXPECT_EQ(UsersPath(Environment(Environment::Variables{}), "out.json"), "out.json");
}

}  // namespace
}  // namespace muster
