// The store's messages as bytes.
//
// A frame is a length (4 bytes, little endian, of what follows) and a message: a type (1 byte) and
// fields, integers little endian, texts as length and bytes. Every connection begins with Hello,
// Challenge and Open (see auth.h for the proofs), answered by Welcome or Refused; then the client
// sends Requests and the server Responses, and Refused where it ends the connection for what came.
// From the answer to an Open that is right on, each frame on TCP ends with a seal (frame_seal.h).
// Pure: bytes in, messages out, and nothing that arrives can do harm beyond an error.
#ifndef MUSTER_CORE_STORE_WIRE_H_
#define MUSTER_CORE_STORE_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/wire_version.h"

namespace muster::store_internal {

// Of either nonce: who sends another one speaks something else.
inline constexpr size_t kNonceBytes = 32;

struct Hello {
  uint32_t version = kWireVersion;
  std::string nonce;
};

struct Challenge {
  std::string nonce;
  std::string proof;  // that the server knows the token
};

struct Open {
  std::string proof;  // that the client knows the token
  SessionInfo session;
  absl::Duration heartbeat_timeout = absl::InfiniteDuration();
};

struct Welcome {
  std::string who;  // serves this store: "rank 0, host a, pid 7"
};

struct Refused {
  absl::Status status;
};

using Message = std::variant<Hello, Challenge, Open, Welcome, Refused, Request, Response>;

// A whole frame.
std::string EncodeFrame(const Message& message);

// A whole frame in parts. The one in the middle, which may be null, may be of other frames, too.
struct FrameParts {
  std::string head;
  std::shared_ptr<const std::string> shared;
  std::string tail;

  size_t size() const {
    return head.size() + (shared == nullptr ? 0 : shared->size()) + tail.size();
  }
};

// The answer to a gather has the same values for every rank: they are encoded once. The parts are
// what EncodeFrame makes of `response` with these values; it has none itself.
std::string EncodeValues(absl::Span<const std::string> values);
FrameParts EncodeAnswer(const Response& response, std::shared_ptr<const std::string> values);

// Of a whole frame, and what makes one longer at its end.
absl::string_view MessageOf(absl::string_view frame);
void ExtendFrame(std::string* frame, absl::string_view tail);
void ExtendFrame(FrameParts* frame, absl::string_view tail);

// The message of a frame without its length. InvalidArgument for all that EncodeFrame does not
// make.
absl::StatusOr<Message> DecodeBody(absl::string_view body);

// Cuts a stream of bytes into frames. Thread-compatible.
class FrameReader {
 public:
  explicit FrameReader(size_t max_body) : max_body_(max_body) {}

  void set_max_body(size_t max_body) { max_body_ = max_body; }

  void Append(absl::string_view bytes) { buffer_.append(bytes.data(), bytes.size()); }

  // The next body; nothing when it is not complete; InvalidArgument when it is longer than the
  // limit, then and from then on. What is returned is valid until the next call of Append or Next.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // Bytes that wait for the rest of their frame.
  size_t pending() const { return buffer_.size() - begin_; }

 private:
  size_t max_body_;
  std::string buffer_;
  size_t begin_ = 0;  // what lies before has been given out
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_WIRE_H_
