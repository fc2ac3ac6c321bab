#include "muster/core/store/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

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
