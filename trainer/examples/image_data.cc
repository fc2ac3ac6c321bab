#include "muster/trainer/examples/image_data.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/trainer/examples/idx_file.h"

namespace muster {
namespace {

// Of the pixels of the 60,000 training images, scaled to [0, 1].
constexpr float kMean = 0.2860f;
constexpr float kDeviation = 0.3530f;

struct Files {
  const char* images;
  const char* labels;
};
constexpr Files kTrainFiles = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"};
constexpr Files kTestFiles = {"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};

}  // namespace

std::vector<std::string> ImageData::FileNames() {
  return {kTrainFiles.images, kTrainFiles.labels, kTestFiles.images, kTestFiles.labels};
}

absl::StatusOr<ImageData> ImageData::Load(const std::string& folder, Part part) {
  const Files& files = part == Part::kTrain ? kTrainFiles : kTestFiles;
  const std::string image_path = absl::StrCat(folder, "/", files.images);
  const std::string label_path = absl::StrCat(folder, "/", files.labels);
  absl::StatusOr<IdxArray> images = ReadIdxFile(image_path, 3);
  if (!images.ok()) return images.status();
  if (images->shape[1] != kSide || images->shape[2] != kSide) {
    return absl::DataLossError(absl::StrCat(image_path, ": has images of ", images->shape[1], " x ",
                                            images->shape[2], ": Fashion-MNIST has 28 x 28"));
  }
  absl::StatusOr<IdxArray> labels = ReadIdxFile(label_path, 1);
  if (!labels.ok()) return labels.status();
  if (labels->shape[0] != images->shape[0]) {
    return absl::DataLossError(
        absl::StrCat(label_path, ": has ", labels->shape[0], " labels for the ", images->shape[0],
                     " images of ", files.images, ": the two files do not belong together"));
  }
  for (size_t i = 0; i < labels->values.size(); ++i) {
    if (labels->values[i] >= kClasses) {
      return absl::DataLossError(absl::StrCat(label_path, ": label ", labels->values[i],
                                              " of image ", i, " is out of range [0, ", kClasses,
                                              "): fetch the file again"));
    }
  }
  return ImageData(std::move(images->values), std::move(labels->values));
}

ImageData::ImageData(std::vector<uint8_t> images, std::vector<uint8_t> labels)
    : images_(std::move(images)), labels_(std::move(labels)) {
  for (int grey = 0; grey < 256; ++grey) {
    scaled_[grey] = (static_cast<float>(grey) / 255 - kMean) / kDeviation;
  }
}

std::vector<Field> ImageData::fields() const {
  return {{"image", DataType::kF32, {kPixels}}, {"label", DataType::kI32, {}}};
}

absl::Status ImageData::Read(absl::Span<const int64_t> indices, Batch& batch) {
  float* image = static_cast<float*>(batch.fields[0].data);
  int32_t* label = static_cast<int32_t*>(batch.fields[1].data);
  for (int64_t index : indices) {
    if (index < 0 || index >= size()) {
      return absl::OutOfRangeError(
          absl::StrCat("image ", index, " was asked for: there are ", size()));
    }
    const uint8_t* pixels = images_.data() + index * kPixels;
    for (int64_t p = 0; p < kPixels; ++p) image[p] = scaled_[pixels[p]];
    image += kPixels;
    *label++ = labels_[index];
  }
  return absl::OkStatus();
}

}  // namespace muster
