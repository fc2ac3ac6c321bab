// Fashion-MNIST as a data set: grey images of 28 x 28 and their classes.
//
//   absl::StatusOr<ImageData> train = ImageData::Load(folder, ImageData::Part::kTrain);
#ifndef MUSTER_TRAINER_EXAMPLES_IMAGE_DATA_H_
#define MUSTER_TRAINER_EXAMPLES_IMAGE_DATA_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "muster/trainer/data.h"

namespace muster {

// Fields: "image" f32[784], scaled to mean 0 and deviation 1 over the training images; "label" i32,
// in [0, 10). Keeps the bytes of the files and converts what is read.
class ImageData final : public Dataset {
 public:
  enum class Part { kTrain, kTest };

  static constexpr int64_t kSide = 28;
  static constexpr int64_t kPixels = kSide * kSide;
  static constexpr int kClasses = 10;

  // From the two files of `part` in `folder`. Errors as ReadIdxFile; DataLoss also for images of
  // another size, for another number of labels than of images, and for a label that is no class.
  static absl::StatusOr<ImageData> Load(const std::string& folder, Part part);

  // The names of the four files.
  static std::vector<std::string> FileNames();

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  std::vector<Field> fields() const override;
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override;

 private:
  ImageData(std::vector<uint8_t> images, std::vector<uint8_t> labels);

  std::vector<uint8_t> images_;
  std::vector<uint8_t> labels_;
  std::array<float, 256> scaled_;  // of each grey value
};

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_IMAGE_DATA_H_
