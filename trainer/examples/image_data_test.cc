#include "muster/trainer/examples/image_data.h"

#include <sys/stat.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "muster/trainer/data.h"
#include "muster/trainer/examples/idx_writer.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ImageDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    mkdir(folder_.c_str(), 0755);  // may be there from an earlier run
    WriteImageFiles(folder_, 30, 10);
  }
  std::string path(const std::string& name) const { return absl::StrCat(folder_, "/", name); }

  std::string folder_;
};

TEST_F(ImageDataTest, ReadsBothPartsScaledAndInTheOrderAskedFor) {
  absl::StatusOr<ImageData> train = ImageData::Load(folder_, ImageData::Part::kTrain);
  ASSERT_TRUE(train.ok()) << train.status();
  EXPECT_EQ(train->size(), 30);
  EXPECT_EQ(ImageData::Load(folder_, ImageData::Part::kTest)->size(), 10);

  BatchMemory memory(train->fields(), 2);
  Batch& batch = memory.Resize(2);
  ASSERT_TRUE(train->Read({27, 3}, batch).ok());
  const float* images = static_cast<const float*>(batch.fields[0].data);
  const int32_t* labels = static_cast<const int32_t*>(batch.fields[1].data);
  EXPECT_EQ(labels[0], 7);
  EXPECT_EQ(labels[1], 3);
  EXPECT_FLOAT_EQ(images[0], (0 - 0.2860f) / 0.3530f);
  EXPECT_FLOAT_EQ(images[784 + 6 * 28], (203 / 255.0f - 0.2860f) / 0.3530f);
}

TEST_F(ImageDataTest, EachMissingFileIsNamed) {
  for (const std::string& name : ImageData::FileNames()) {
    WriteImageFiles(folder_, 30, 10);
    ASSERT_EQ(std::remove(path(name).c_str()), 0);
    const auto part = name.find("train") == 0 ? ImageData::Part::kTrain : ImageData::Part::kTest;
    const absl::Status status = ImageData::Load(folder_, part).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST_F(ImageDataTest, UnequalCountsAreNamed) {
  WriteFile(path("train-labels-idx1-ubyte.gz"), Gzip(IdxBytes({29}, std::vector<uint8_t>(29))));
  EXPECT_THAT(ImageData::Load(folder_, ImageData::Part::kTrain).status().message(),
              HasSubstr("train-labels-idx1-ubyte.gz: has 29 labels for the 30 images of "
                        "train-images-idx3-ubyte.gz"));
}

TEST_F(ImageDataTest, ALabelThatIsNoClassIsNamedWithItsPlace) {
  std::vector<uint8_t> labels(30);
  labels[12] = 17;
  WriteFile(path("train-labels-idx1-ubyte.gz"), Gzip(IdxBytes({30}, labels)));
  EXPECT_THAT(ImageData::Load(folder_, ImageData::Part::kTrain).status().message(),
              HasSubstr("label 17 of image 12 is out of range [0, 10)"));
}

TEST_F(ImageDataTest, ImagesOfAnotherSizeAreRefused) {
  WriteFile(path("train-images-idx3-ubyte.gz"),
            Gzip(IdxBytes({30, 32, 32}, std::vector<uint8_t>(size_t{30} * 32 * 32))));
  EXPECT_THAT(ImageData::Load(folder_, ImageData::Part::kTrain).status().message(),
              HasSubstr("has images of 32 x 32: Fashion-MNIST has 28 x 28"));
}

TEST_F(ImageDataTest, AnImageThatIsNotThereIsRefused) {
  absl::StatusOr<ImageData> test = ImageData::Load(folder_, ImageData::Part::kTest);
  ASSERT_TRUE(test.ok());
  BatchMemory memory(test->fields(), 1);
  EXPECT_THAT(test->Read({10}, memory.Resize(1)).message(),
              HasSubstr("image 10 was asked for: there are 10"));
}

}  // namespace
}  // namespace muster
