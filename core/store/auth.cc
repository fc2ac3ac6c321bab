#include "muster/core/store/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster {
namespace {

constexpr size_t kMaxTokenBytes = 4096;

absl::Status FileError(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " the token file \"", path, "\""));
}

// Closes when it goes.
struct File {
  explicit File(int opened) : fd(opened) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const int fd;
};

// Fields one after another could be cut elsewhere and mean something else: each has its length
// before it.
std::string Join(absl::string_view purpose, absl::string_view a, absl::string_view b,
                 absl::string_view c) {
  return absl::StrCat(purpose, " ", a.size(), ":", a, " ", b.size(), ":", b, " ", c.size(), ":", c);
}

}  // namespace

absl::StatusOr<std::string> RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) {
    return absl::InternalError("libcrypto has no random bytes: is its random generator set up?");
  }
  return bytes;
}

absl::StatusOr<std::string> RandomToken() {
  absl::StatusOr<std::string> bytes = RandomBytes(32);
  if (!bytes.ok()) return bytes.status();
  return absl::BytesToHexString(*bytes);
}

absl::Status WriteTokenFile(const std::string& path, absl::string_view token) {
  const File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd < 0) return FileError(errno, "cannot create", path);
  const std::string line = absl::StrCat(token, "\n");
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(file.fd, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      unlink(path.c_str());
      return FileError(error, "cannot write", path);
    }
    written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  // Non-blocking: a named pipe in its place would hold us.
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return FileError(errno, "cannot open", path);
  struct stat info;
  if (fstat(file.fd, &info) != 0) return FileError(errno, "cannot inspect", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" is not a regular file"));
  }
  if ((info.st_mode & 0077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrFormat("others may use the token file \"%s\" (mode %04o): chmod 600 it", path,
                        info.st_mode & 07777));
  }
  std::string text(kMaxTokenBytes + 2, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.fd, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, "cannot read", path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  const absl::string_view token = absl::StripTrailingAsciiWhitespace(text);
  if (token.empty() || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the token file \"", path, "\" has ", token.empty() ? "no token" : "too long a token"));
  }
  return std::string(token);
}

namespace store_internal {

absl::StatusOr<std::string> HmacSha256(absl::string_view key, absl::string_view data) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  // A key of no bytes must still not be a null pointer, which would mean "the key from before".
  const char none = 0;
  if (HMAC(EVP_sha256(), key.empty() ? &none : key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    return absl::InternalError("libcrypto cannot compute HMAC-SHA256");
  }
  digest.resize(size);
  return digest;
}

absl::StatusOr<std::string> ServerProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce) {
  return HmacSha256(token, Join("muster-store server 1", client_nonce, server_nonce, ""));
}

absl::StatusOr<std::string> ClientProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce, absl::string_view about) {
  return HmacSha256(token, Join("muster-store client 1", client_nonce, server_nonce, about));
}

bool SameProof(absl::string_view expected, absl::string_view given) {
  return expected.size() == given.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

}  // namespace store_internal
}  // namespace muster
