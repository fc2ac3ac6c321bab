#include "muster/trainer/examples/idx_file.h"

#define ZLIB_CONST  // zlib reads its input and says so
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

// More than any data set of this format has: a wrong path or a damaged header must not take the
// machine's memory.
constexpr int64_t kMaxValues = int64_t{1} << 30;
constexpr int64_t kMaxPackedBytes = int64_t{1} << 30;
// What deflate can make of one byte: https://zlib.net/zlib_tech.html, "Maximum Compression Factor".
constexpr int64_t kMaxRatio = 1032;
constexpr uint8_t kUnsignedBytes = 8;
constexpr char kRemedy[] = "give the folder of the four Fashion-MNIST files";

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(
      path, ": ", what, ": fetch the file again (Debian: package dataset-fashion-mnist)"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const auto failed = [&path](const char* what, int error) {
    return absl::Status(
        absl::ErrnoToStatusCode(error),
        absl::StrCat(path, ": cannot ", what, ": ", std::strerror(error), ": ", kRemedy));
  };
  // Without O_NONBLOCK a FIFO would wait for somebody who writes.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return failed("open", errno);
  const std::unique_ptr<std::FILE, Close> file(fdopen(fd, "rb"));
  if (file == nullptr) {
    const int error = errno;
    close(fd);
    return failed("open", error);
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return failed("read", errno);
  if (S_ISDIR(info.st_mode)) return failed("read", EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a device, a pipe or a socket and no file: ", kRemedy));
  }
  if (info.st_size > kMaxPackedBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", info.st_size,
                                                   " bytes and at most ", kMaxPackedBytes,
                                                   " are read: ", kRemedy));
  }
  std::string content(static_cast<size_t>(info.st_size), '\0');
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  if (std::ferror(file.get()) != 0) return failed("read", errno);
  return content;
}

// Unpacks one gzip member piece by piece. Not zlib's gzread, which takes a file that is no gzip
// file as it is and ignores what follows the member.
class Inflater {
 public:
  Inflater(const std::string& path, const std::string& packed) : path_(path) {
    stream_.next_in = reinterpret_cast<const Bytef*>(packed.data());
    stream_.avail_in = static_cast<uInt>(packed.size());
    constexpr int kGzipOnly = 16;
    state_ = inflateInit2(&stream_, MAX_WBITS + kGzipOnly);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // As many bytes as there are, at most `count`.
  absl::StatusOr<int64_t> Read(uint8_t* to, int64_t count) {
    stream_.next_out = to;
    stream_.avail_out = static_cast<uInt>(count);
    while (stream_.avail_out > 0 && state_ == Z_OK) state_ = inflate(&stream_, Z_NO_FLUSH);
    if (state_ != Z_OK && state_ != Z_STREAM_END && state_ != Z_BUF_ERROR) {
      return Damaged(path_, absl::StrCat("not a sound gzip file (zlib: ",
                                         stream_.msg != nullptr ? stream_.msg : "no reason", ")"));
    }
    return count - stream_.avail_out;
  }

  bool complete() const { return state_ == Z_STREAM_END; }
  int64_t bytes_behind() const { return stream_.avail_in; }

 private:
  const std::string& path_;
  z_stream stream_ = {};
  int state_ = Z_OK;
};

absl::Status CutShort(const std::string& path, int64_t got, int64_t expected) {
  return Damaged(path, absl::StrCat("ends after ", got, " of ", expected, " bytes"));
}

}  // namespace

absl::StatusOr<IdxArray> ReadIdxFile(const std::string& path, int dimensions) {
  absl::StatusOr<std::string> packed = ReadFile(path);
  if (!packed.ok()) return packed.status();
  Inflater inflater(path, *packed);

  const int64_t extents = 4 * int64_t{dimensions};  // bytes
  std::vector<uint8_t> header(4 + extents);
  absl::StatusOr<int64_t> got = inflater.Read(header.data(), 4);
  if (!got.ok()) return got.status();
  if (*got < 4) return CutShort(path, *got, 4);
  if (header[0] != 0 || header[1] != 0 || header[2] != kUnsignedBytes || header[3] != dimensions) {
    return Damaged(
        path, absl::StrFormat("starts with %02x%02x%02x%02x and an idx file of bytes in "
                              "%d dimensions with 000008%02x",
                              header[0], header[1], header[2], header[3], dimensions, dimensions));
  }
  got = inflater.Read(header.data() + 4, extents);
  if (!got.ok()) return got.status();
  if (*got < extents) return CutShort(path, 4 + *got, 4 + extents);

  IdxArray array;
  int64_t count = 1;
  for (int64_t d = 0; d < dimensions; ++d) {
    const uint8_t* extent = header.data() + 4 + 4 * d;
    array.shape.push_back(int64_t{extent[0]} << 24 | extent[1] << 16 | extent[2] << 8 | extent[3]);
    // Each factor is below 2^32 and the product before it at most 2^30: no overflow.
    count *= array.shape.back();
    if (array.shape.back() == 0 || count > kMaxValues) {
      return Damaged(path, absl::StrCat("has extent ", array.shape.back(), " in dimension ", d));
    }
  }
  const int64_t expected = static_cast<int64_t>(header.size()) + count;
  const int64_t packed_bytes = static_cast<int64_t>(packed->size());
  if (expected > packed_bytes * kMaxRatio) {
    return Damaged(path, absl::StrCat("claims ", count, " values, which ", packed_bytes,
                                      " bytes of gzip cannot hold"));
  }
  array.values.resize(count);
  got = inflater.Read(array.values.data(), count);
  if (!got.ok()) return got.status();
  if (*got < count) {
    return CutShort(path, static_cast<int64_t>(header.size()) + *got, expected);
  }
  uint8_t more;
  got = inflater.Read(&more, 1);  // also makes zlib compare the checksum
  if (!got.ok()) return got.status();
  if (*got > 0) {
    return Damaged(path, absl::StrCat("goes on after the ", expected, " bytes of its header"));
  }
  if (!inflater.complete()) return Damaged(path, "lacks the end of its gzip data");
  if (inflater.bytes_behind() > 0) {
    return Damaged(path,
                   absl::StrCat("has ", inflater.bytes_behind(), " bytes after its gzip data"));
  }
  return array;
}

}  // namespace muster
