// Who may open a session: those who know the job's token, which itself is never sent.
//
// Client and server send each other random nonces, and each proves with an HMAC over both that it
// knows the token; the client's covers what it says about itself, too. The only user of libcrypto.
#ifndef MUSTER_CORE_STORE_AUTH_H_
#define MUSTER_CORE_STORE_AUTH_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A new secret of a job: 64 hexadecimal digits from the system's generator.
absl::StatusOr<std::string> RandomToken();

// `count` bytes from the system's generator.
absl::StatusOr<std::string> RandomBytes(size_t count);

namespace store_internal {

// 32 bytes each. `about` is what the client says of itself (see wire.h).
absl::StatusOr<std::string> ServerProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce);
absl::StatusOr<std::string> ClientProof(absl::string_view token, absl::string_view client_nonce,
                                        absl::string_view server_nonce, absl::string_view about);

// In a time that does not depend on where they differ.
bool SameProof(absl::string_view expected, absl::string_view given);

// HMAC-SHA256, for the tests' known answers.
absl::StatusOr<std::string> HmacSha256(absl::string_view key, absl::string_view data);

}  // namespace store_internal
}  // namespace muster

#endif  // MUSTER_CORE_STORE_AUTH_H_
