// HMAC_CTX, which OpenSSL 3 deprecates: what replaces it is not in 1.1, and what both have besides
// costs five times as much a frame.
#define OPENSSL_API_COMPAT 0x10100000L

#include "muster/core/store/auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "muster/core/store/wire_version.h"

namespace muster {
namespace {

// Fields one after another could be cut elsewhere and mean something else: each has its length
// before it.
std::string Join(absl::string_view purpose, absl::string_view a, absl::string_view b,
                 absl::string_view c) {
  return absl::StrCat(purpose, " ", a.size(), ":", a, " ", b.size(), ":", b, " ", c.size(), ":", c);
}

std::string Purpose(absl::string_view what) {
  return absl::StrCat("muster-store ", store_internal::kWireVersion, " ", what);
}

// Never null, which would mean something else to libcrypto.
const unsigned char* Bytes(absl::string_view text) {
  static constexpr unsigned char kNone = 0;
  return text.empty() ? &kNone : reinterpret_cast<const unsigned char*>(text.data());
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
  if (HMAC(EVP_sha256(), Bytes(key), static_cast<int>(key.size()), Bytes(data), data.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    return absl::InternalError("libcrypto cannot compute HMAC-SHA256");
  }
  digest.resize(size);
  return digest;
}

absl::StatusOr<std::string> ServerProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce) {
  return HmacSha256(token, Join(Purpose("server"), client_nonce, server_nonce, ""));
}

absl::StatusOr<std::string> ClientProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce, absl::string_view about) {
  return HmacSha256(token, Join(Purpose("client"), client_nonce, server_nonce, about));
}

absl::StatusOr<std::string> DeriveKey(absl::string_view secret, absl::string_view salt,
                                      absl::string_view purpose, size_t count) {
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr), EVP_PKEY_CTX_free);
  std::string key(count, '\0');
  size_t size = key.size();
  EVP_PKEY_CTX* const hkdf = context.get();
  if (hkdf == nullptr || EVP_PKEY_derive_init(hkdf) <= 0 ||
      EVP_PKEY_CTX_set_hkdf_md(hkdf, EVP_sha256()) <= 0 ||
      EVP_PKEY_CTX_set1_hkdf_salt(hkdf, Bytes(salt), static_cast<int>(salt.size())) <= 0 ||
      EVP_PKEY_CTX_set1_hkdf_key(hkdf, Bytes(secret), static_cast<int>(secret.size())) <= 0 ||
      EVP_PKEY_CTX_add1_hkdf_info(hkdf, Bytes(purpose), static_cast<int>(purpose.size())) <= 0 ||
      EVP_PKEY_derive(hkdf, reinterpret_cast<unsigned char*>(key.data()), &size) <= 0 ||
      size != count) {
    return absl::InternalError("libcrypto cannot compute HKDF-SHA256");
  }
  return key;
}

absl::StatusOr<std::string> DirectionKey(absl::string_view token, absl::string_view client_nonce,
                                         absl::string_view server_nonce,
                                         absl::string_view direction) {
  // A token may be empty, and what HKDF takes may not: as a proof, it goes in with its length.
  return DeriveKey(Join("muster-store token", token, "", ""),
                   Join("muster-store nonces", client_nonce, server_nonce, ""),
                   Purpose(absl::StrCat("frames ", direction)), KeyedMac::kBytes);
}

struct KeyedMac::State {
  std::unique_ptr<HMAC_CTX, decltype(&HMAC_CTX_free)> context{HMAC_CTX_new(), HMAC_CTX_free};
};

KeyedMac::KeyedMac(std::unique_ptr<State> state) : state_(std::move(state)) {}
KeyedMac::KeyedMac(KeyedMac&&) noexcept = default;
KeyedMac& KeyedMac::operator=(KeyedMac&&) noexcept = default;
KeyedMac::~KeyedMac() = default;

absl::StatusOr<KeyedMac> KeyedMac::Create(absl::string_view key) {
  auto state = std::make_unique<State>();
  if (state->context == nullptr ||
      HMAC_Init_ex(state->context.get(), Bytes(key), static_cast<int>(key.size()), EVP_sha256(),
                   nullptr) != 1) {
    return absl::InternalError("libcrypto cannot compute HMAC-SHA256");
  }
  return KeyedMac(std::move(state));
}

absl::Status KeyedMac::Append(uint64_t number, std::initializer_list<absl::string_view> message,
                              std::string* mac) {
  HMAC_CTX* const context = state_->context.get();
  unsigned char little_endian[8];
  for (int i = 0; i < 8; ++i) little_endian[i] = static_cast<unsigned char>(number >> (8 * i));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // No key: the one from before.
  bool good = HMAC_Init_ex(context, nullptr, 0, nullptr, nullptr) == 1 &&
              HMAC_Update(context, little_endian, sizeof(little_endian)) == 1;
  for (const absl::string_view part : message) {
    good = good && HMAC_Update(context, Bytes(part), part.size()) == 1;
  }
  if (!good || HMAC_Final(context, digest, &size) != 1 || size != kBytes) {
    return absl::InternalError("libcrypto cannot compute HMAC-SHA256");
  }
  mac->append(reinterpret_cast<const char*>(digest), size);
  return absl::OkStatus();
}

bool SameProof(absl::string_view expected, absl::string_view given) {
  return expected.size() == given.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), expected.size()) == 0;
}

}  // namespace store_internal
}  // namespace muster
