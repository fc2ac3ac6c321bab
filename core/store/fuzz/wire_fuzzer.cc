// Bytes as they arrive -> frames -> messages: whatever they are, the parser gives messages that
// mean what they say, or an error.
//
// The first byte says in which pieces the rest arrives.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/store/frame_seal.h"
#include "muster/core/store/fuzz/fuzz_target.h"
#include "muster/core/store/fuzz/real_messages.h"
#include "muster/core/store/wire.h"

namespace muster::store_fuzz {
namespace {

using store_internal::DecodeBody;
using store_internal::EncodeFrame;
using store_internal::FrameReader;
using store_internal::FrameSeal;
using store_internal::Message;
using store_internal::MessageOf;

// A limit that inputs reach.
constexpr size_t kMaxBody = 2048;

void Check(absl::string_view body) {
  CHECK_LE(body.size(), kMaxBody);
  const absl::StatusOr<Message> message = DecodeBody(body);
  if (message.ok()) {
    // What was read is what is written, and no more than came: nothing was made of nothing.
    const std::string frame = EncodeFrame(*message);
    CHECK_LE(MessageOf(frame).size(), body.size());
    const absl::StatusOr<Message> again = DecodeBody(MessageOf(frame));
    CHECK_OK(again);
    CHECK_EQ(EncodeFrame(*again), frame);
  }
  absl::StatusOr<FrameSeal> seal = FrameSeal::Create(FrameSeal::Side::kServer, "token", "c", "s");
  CHECK_OK(seal);
  CHECK(!seal->Open(body).ok()) << "a seal without the token";
}

}  // namespace

std::vector<Seed> Seeds() {
  std::vector<Seed> seeds;
  std::string all = "\x07";
  for (const auto& messages : {Greetings(), Responses(), Requests()}) {
    for (const NamedMessage& named : messages) {
      const std::string frame = EncodeFrame(named.message);
      // At once, and byte by byte.
      seeds.push_back({named.name, '\0' + frame});
      seeds.push_back({named.name + "_slowly", '\1' + frame});
      all += frame;
    }
  }
  seeds.push_back({"all", all});
  return seeds;
}

}  // namespace muster::store_fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using muster::store_fuzz::kMaxBody;
  if (size == 0) return 0;
  const size_t piece = data[0] == 0 ? size : data[0];
  absl::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  muster::store_internal::FrameReader reader(kMaxBody);
  bool refused = false;
  while (!rest.empty()) {
    const size_t count = std::min(piece, rest.size());
    reader.Append(rest.substr(0, count));
    rest.remove_prefix(count);
    for (;;) {
      const absl::StatusOr<std::optional<absl::string_view>> body = reader.Next();
      // Once it has refused a stream it never takes it up again.
      CHECK(!refused || !body.ok());
      refused = !body.ok();
      if (refused || !body->has_value()) break;
      muster::store_fuzz::Check(**body);
    }
    CHECK_LE(reader.pending(), size);
  }
  return 0;
}
