#include "muster/trainer/examples/idx_writer.h"

#define ZLIB_CONST  // zlib reads its input and says so
#include <zlib.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

void Require(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

void WritePart(const std::string& folder, const std::string& prefix, int64_t count) {
  constexpr int64_t kSide = 28;
  std::vector<uint8_t> labels(count);
  std::vector<uint8_t> images(count * kSide * kSide, 0);
  for (int64_t i = 0; i < count; ++i) {
    labels[i] = static_cast<uint8_t>(i % 10);
    for (int64_t column = 0; column < kSide; ++column) {
      images[(i * kSide + int64_t{2} * labels[i]) * kSide + column] =
          static_cast<uint8_t>(200 + i % 50);
    }
  }
  WriteFile(absl::StrCat(folder, "/", prefix, "-images-idx3-ubyte.gz"),
            Gzip(IdxBytes({count, kSide, kSide}, images)));
  WriteFile(absl::StrCat(folder, "/", prefix, "-labels-idx1-ubyte.gz"),
            Gzip(IdxBytes({count}, labels)));
}

}  // namespace

std::string IdxBytes(const std::vector<int64_t>& shape, const std::vector<uint8_t>& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (int64_t extent : shape) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(extent >> shift));
  }
  bytes.append(values.begin(), values.end());
  return bytes;
}

std::string Gzip(absl::string_view content) {
  z_stream stream = {};
  constexpr int kGzip = 16;
  Require(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + kGzip, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK,
          "deflateInit2");
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  Require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void WriteFile(const std::string& path, absl::string_view content) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  Require(file != nullptr, path.c_str());
  Require(std::fwrite(content.data(), 1, content.size(), file) == content.size(), path.c_str());
  Require(std::fclose(file) == 0, path.c_str());
}

void WriteImageFiles(const std::string& folder, int64_t train_images, int64_t test_images) {
  WritePart(folder, "train", train_images);
  WritePart(folder, "t10k", test_images);
}

}  // namespace muster
