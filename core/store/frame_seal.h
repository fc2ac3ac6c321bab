// What makes a frame the one that its sender sent, at the place where it sent it.
//
// Once the greeting of wire.h is through, every frame on TCP ends with a seal: an HMAC-SHA256 over
// the frame's number in its direction (0, 1, ...; both ends count, it does not travel) and its
// message. The keys, one a direction, come from the job's token and the two nonces of the greeting
// (auth.h), so a frame of another connection, of the other direction or of before is as good as
// noise. The content is not hidden.
//
//   absl::StatusOr<FrameSeal> seal = FrameSeal::Create(FrameSeal::Side::kClient, token, c, s);
//   std::string frame = EncodeFrame(request);
//   absl::Status sealed = seal->Seal(&frame);                            // to be sent next
//   absl::StatusOr<absl::string_view> message = seal->Open(body);        // of the next to come
#ifndef MUSTER_CORE_STORE_FRAME_SEAL_H_
#define MUSTER_CORE_STORE_FRAME_SEAL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/store/auth.h"
#include "muster/core/store/wire.h"

namespace muster::store_internal {

// Of one connection, both directions. Thread-compatible; movable.
class FrameSeal {
 public:
  enum class Side { kClient, kServer };
  // What it adds to a frame.
  static constexpr size_t kBytes = KeyedMac::kBytes;

  // Internal when libcrypto fails.
  static absl::StatusOr<FrameSeal> Create(Side side, absl::string_view token,
                                          absl::string_view client_nonce,
                                          absl::string_view server_nonce);

  // Ends a whole frame with its seal: the next one that this side sends.
  absl::Status Seal(std::string* frame);
  absl::Status Seal(FrameParts* frame);

  // DataLoss: `what` came, which the other side cannot have sent.
  static absl::Status Broken(absl::string_view what);

  // The message of the next frame that came, of which `body` is all but the length; it points into
  // `body`. DataLoss when that is not what the other side sent next: nothing after it is either.
  absl::StatusOr<absl::string_view> Open(absl::string_view body);

 private:
  FrameSeal(KeyedMac sends, KeyedMac receives);

  KeyedMac sends_;
  KeyedMac receives_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_FRAME_SEAL_H_
