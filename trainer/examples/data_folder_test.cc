#include "muster/trainer/examples/data_folder.h"

#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/examples/idx_writer.h"
#include "muster/trainer/examples/image_data.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The real files: 60,000 and 10,000 images.
TEST(DataFolderTest, FindsTheRealDataThatBazelDeclaresAndItIsSound) {
  const absl::StatusOr<std::string> folder = FindBundledData(Environment::OfProcess(), "none");
  ASSERT_TRUE(folder.ok()) << folder.status();
  absl::StatusOr<ImageData> train = ImageData::Load(*folder, ImageData::Part::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 60000);
  absl::StatusOr<ImageData> test = ImageData::Load(*folder, ImageData::Part::kTest);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ(test->size(), 10000);
}

TEST(DataFolderTest, WithoutRunfilesItSaysWhereItLookedAndWhatToDo) {
  const absl::Status status =
      FindBundledData(Environment(Environment::Variables{{"RUNFILES_DIR", "/nonexistent"}}),
                      "/bin/program")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/"));
  EXPECT_THAT(status.message(), HasSubstr("/bin/program.runfiles/"));
  EXPECT_THAT(status.message(), HasSubstr("give --data=DIR"));
}

TEST(DataFolderTest, TheMissingFileIsNamed) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/a folder");
  mkdir(folder.c_str(), 0755);
  WriteImageFiles(folder, 20, 10);
  EXPECT_TRUE(CheckDataFolder(folder).ok());
  std::remove(absl::StrCat(folder, "/t10k-labels-idx1-ubyte.gz").c_str());
  EXPECT_THAT(CheckDataFolder(folder).message(),
              HasSubstr("a folder: cannot read t10k-labels-idx1-ubyte.gz"));
}

}  // namespace
}  // namespace muster
