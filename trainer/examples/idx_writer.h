// Makes idx files for tests: sound ones, and the raw material of broken ones.
#ifndef MUSTER_TRAINER_EXAMPLES_IDX_WRITER_H_
#define MUSTER_TRAINER_EXAMPLES_IDX_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// An idx file's content before it is packed.
std::string IdxBytes(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values);

// `content` as one gzip member.
std::string Gzip(absl::string_view content);

// Writes `content` to `path`. Aborts the test when that fails.
void WriteFile(const std::string& path, absl::string_view content);

// The four files of a small, sound Fashion-MNIST in `folder`, which must exist: the label of image
// i is i % 10, and its pixels say so.
void WriteImageFiles(const std::string& folder, int64_t train_images, int64_t test_images);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_IDX_WRITER_H_
