// Each dependency is compiled and linked once, so that a broken set-up is seen here, by name, and
// not in the middle of a build.
#include <openssl/sha.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <typeinfo>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "asio.hpp"
#include "gloo/context.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

TEST(Dependencies, AbseilLinks) {
  EXPECT_EQ(absl::StrCat(absl::AbortedError("late").ToString(), 1), "ABORTED: late1");
}

TEST(Dependencies, AsioRunsAHandler) {
  asio::io_context io;
  bool ran = false;
  asio::post(io, [&] { ran = true; });
  io.run();
  EXPECT_TRUE(ran);
}

TEST(Dependencies, EigenMultiplies) {
  EXPECT_EQ((Eigen::Matrix2f::Identity() * Eigen::Vector2f(1, 2)).sum(), 3);
}

TEST(Dependencies, GlooLinks) {
  gloo::Context context(0, 1);
  // Renamed, or the linker could take the gloo that libtorch exports.
  EXPECT_NE(std::string(typeid(gloo::Context).name()).find("muster_gloo"), std::string::npos);
  EXPECT_EQ(context.size, 1);
}

TEST(Dependencies, JsonParses) { EXPECT_EQ(nlohmann::json::parse("{\"a\": 1}")["a"], 1); }

TEST(Dependencies, LibcryptoHashes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>("abc"), 3, digest);
  EXPECT_EQ(digest[0], 0xba);
}

// The folder's name depends on Bazel's version.
std::string FindRunfile(const std::string& name) {
  const std::filesystem::path root = std::getenv("TEST_SRCDIR");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           root, std::filesystem::directory_options::follow_directory_symlink)) {
    if (entry.path().filename() == name) return entry.path();
  }
  return "";
}

TEST(Dependencies, FashionMnistIsGzippedIdx) {
  gzFile file = gzopen(FindRunfile("t10k-labels-idx1-ubyte.gz").c_str(), "rb");
  ASSERT_NE(file, nullptr);
  unsigned char header[8];
  EXPECT_EQ(gzread(file, header, sizeof(header)), 8);
  gzclose(file);
  EXPECT_EQ(header[3], 1);                         // labels: one dimension
  EXPECT_EQ(header[6] * 256 + header[7], 10'000);  // of 10,000
}

}  // namespace
}  // namespace muster
