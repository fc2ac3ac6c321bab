// What the trainer knows of data: a number of samples, and how to read some of them into memory
// that it provides.
//
//   class Squares : public Dataset {
//     int64_t size() const override { return 1000; }
//     std::vector<Field> fields() const override {
//       return {{"x", DataType::kF32, {1}}, {"y", DataType::kF32, {1}}};
//     }
//     absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
//       float* x = static_cast<float*>(batch.fields[0].data);
//       ...
//     }
//   };
#ifndef MUSTER_TRAINER_DATA_H_
#define MUSTER_TRAINER_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/trainer/aligned_memory.h"

namespace muster {

// One tensor of a sample: an image, a label.
struct Field {
  std::string name;
  DataType dtype = DataType::kF32;
  std::vector<int64_t> shape;  // of one sample; empty for a scalar

  int64_t elements() const;  // of one sample
};

// `size` samples; fields[f] holds field f of all of them, sample after sample. A view.
struct Batch {
  int64_t size = 0;
  std::vector<Buffer> fields;
};

// Every rank has the same data set (the sampler divides it). Calls come from one thread at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;               // samples
  virtual std::vector<Field> fields() const = 0;  // the same at every call

  // Writes the samples `indices` (each in [0, size())) into `batch`, whose size is their number. An
  // error stops the stage on every rank; it should name the sample.
  virtual absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) = 0;
};

// Samples [begin, begin + size) of another data set, which it borrows: a part kept for validation.
class Subset final : public Dataset {
 public:
  // The range must lie within `all`.
  Subset(Dataset& all, int64_t begin, int64_t size);

  int64_t size() const override { return size_; }
  std::vector<Field> fields() const override { return all_.fields(); }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override;

 private:
  Dataset& all_;
  const int64_t begin_;
  const int64_t size_;
  std::vector<int64_t> shifted_;  // kept, so that a step allocates nothing
};

// The memory of batches of at most `capacity` samples, taken once.
class BatchMemory {
 public:
  BatchMemory(absl::Span<const Field> fields, int64_t capacity);

  // A batch of `size` <= capacity samples; what an earlier one held is overwritten.
  Batch& Resize(int64_t size);

 private:
  std::vector<int64_t> elements_;  // of one sample, for each field
  std::vector<AlignedMemory> memory_;
  Batch batch_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_DATA_H_
