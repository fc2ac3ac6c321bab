#include "muster/trainer/examples/idx_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/examples/idx_writer.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of this test with `content`.
std::string File(absl::string_view content) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".gz");
  WriteFile(path, content);
  return path;
}

// What reading `content` says; it must be DataLoss that names the file and the remedy.
std::string Damage(absl::string_view content, int dimensions = 2) {
  const std::string path = File(content);
  const absl::Status status = ReadIdxFile(path, dimensions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(status.message(), HasSubstr(path));
  EXPECT_THAT(status.message(), HasSubstr("fetch the file again"));
  return std::string(status.message());
}

std::string Sound() { return IdxBytes({2, 3}, {1, 2, 3, 4, 5, 255}); }

TEST(IdxFileTest, ReadsWhatWasWritten) {
  const absl::StatusOr<IdxArray> array = ReadIdxFile(File(Gzip(Sound())), 2);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_THAT(array->values, ElementsAre(1, 2, 3, 4, 5, 255));
}

TEST(IdxFileTest, ReadsExtentsOfMoreThanOneByte) {
  const std::vector<uint8_t> values(70000, 9);
  const absl::StatusOr<IdxArray> array = ReadIdxFile(File(Gzip(IdxBytes({70000}, values))), 1);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(70000));
  EXPECT_EQ(array->values, values);
}

TEST(IdxFileTest, AMissingFileIsNotFound) {
  const absl::Status status = ReadIdxFile("/nonexistent/train.gz", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/train.gz: cannot open: No such file"));
}

TEST(IdxFileTest, AFolderIsNoFile) {
  const absl::Status status = ReadIdxFile(::testing::TempDir(), 1).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("cannot read: Is a directory"));
}

TEST(IdxFileTest, AnEmptyFileIsRefused) {
  EXPECT_THAT(Damage(""), HasSubstr("ends after 0 of 4 bytes"));
}

TEST(IdxFileTest, AFileThatIsNotPackedIsRefused) {
  EXPECT_THAT(Damage(Sound()), HasSubstr("not a sound gzip file"));
}

TEST(IdxFileTest, AnotherMagicNumberIsRefusedAndShown) {
  std::string bytes = Sound();
  bytes[2] = 0x0d;  // idx of floats
  EXPECT_THAT(
      Damage(Gzip(bytes)),
      HasSubstr("starts with 00000d02 and an idx file of bytes in 2 dimensions with 00000802"));
  EXPECT_THAT(Damage(Gzip(Sound()), 3), HasSubstr("starts with 00000802"));
  EXPECT_THAT(Damage(Gzip("<html>not found</html>")), HasSubstr("starts with 3c68746d"));
}

// Every prefix of the packed file, and every prefix of what is packed.
TEST(IdxFileTest, AFileThatIsCutShortIsRefusedWhereverItIsCut) {
  const std::string packed = Gzip(Sound());
  for (size_t length = 0; length < packed.size(); ++length) {
    Damage(absl::string_view(packed).substr(0, length));
  }
  const std::string bytes = Sound();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(Damage(Gzip(absl::string_view(bytes).substr(0, length))), HasSubstr("ends after"));
  }
}

TEST(IdxFileTest, BytesBeyondTheHeadersCountAreRefused) {
  EXPECT_THAT(Damage(Gzip(Sound() + "x")), HasSubstr("goes on after the 18 bytes of its header"));
}

TEST(IdxFileTest, BytesBehindTheGzipDataAreRefused) {
  EXPECT_THAT(Damage(Gzip(Sound()) + "xyz"), HasSubstr("has 3 bytes after its gzip data"));
}

// Every byte behind gzip's header, which has fields that do not matter. Some bits that fill the
// last byte of the packed data mean nothing: then the array must be the sound one.
TEST(IdxFileTest, AFlippedByteNeverGivesAnotherArray) {
  std::vector<uint8_t> values;
  for (int i = 0; i < 400; ++i) values.push_back(static_cast<uint8_t>(i * i * 7 % 251));
  const std::string sound = Gzip(IdxBytes({20, 20}, values));
  int refused = 0;
  for (size_t i = 10; i < sound.size(); ++i) {
    std::string broken = sound;
    broken[i] = static_cast<char>(broken[i] ^ 0x55);
    const absl::StatusOr<IdxArray> array = ReadIdxFile(File(broken), 2);
    if (array.ok()) {
      EXPECT_EQ(array->values, values) << "byte " << i;
    } else {
      EXPECT_EQ(array.status().code(), absl::StatusCode::kDataLoss) << array.status();
      ++refused;
    }
  }
  EXPECT_GE(refused, static_cast<int>(sound.size()) - 12);
}

TEST(IdxFileTest, AHeaderThatClaimsTooMuchTakesNoMemory) {
  std::string bytes = {0, 0, 8, 3};
  bytes.append(12, '\x7f');
  EXPECT_THAT(Damage(Gzip(bytes), 3), HasSubstr("has extent 2139062143 in dimension 0"));
  EXPECT_THAT(Damage(Gzip(IdxBytes({0, 3}, {})), 2), HasSubstr("has extent 0 in dimension 0"));
  const std::string packed = Gzip(IdxBytes({int64_t{1} << 30}, {}));
  EXPECT_THAT(Damage(packed, 1), HasSubstr(absl::StrCat("claims 1073741824 values, which ",
                                                        packed.size(), " bytes of gzip cannot")));
}

// Zeros pack as well as anything can.
TEST(IdxFileTest, TheBestPackedFileIsReadAllTheSame) {
  const std::vector<uint8_t> zeros(1 << 24, 0);
  const absl::StatusOr<IdxArray> array = ReadIdxFile(File(Gzip(IdxBytes({1 << 24}, zeros))), 1);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->values, zeros);
}

TEST(IdxFileTest, WhatIsNoFileIsRefusedAtOnce) {
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/fifo.gz");
  unlink(fifo.c_str());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    const absl::Status status = ReadIdxFile(path, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(path, ": is a device, a pipe")));
  }
}

TEST(IdxFileTest, AFileThatIsTooLargeIsNotRead) {
  const std::string path = File("");
  constexpr int64_t kBytes = (int64_t{1} << 30) + 1;  // holes
  ASSERT_EQ(truncate(path.c_str(), kBytes), 0);
  const absl::Status status = ReadIdxFile(path, 1).status();
  unlink(path.c_str());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("has ", kBytes, " bytes")));
}

}  // namespace
}  // namespace muster
