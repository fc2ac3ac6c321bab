#include "muster/core/store/frame_seal.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::store_internal {
namespace {

constexpr absl::string_view kWhoElse = "something between the two ends writes to their connection";

}  // namespace

FrameSeal::FrameSeal(KeyedMac sends, KeyedMac receives)
    : sends_(std::move(sends)), receives_(std::move(receives)) {}

absl::StatusOr<FrameSeal> FrameSeal::Create(Side side, absl::string_view token,
                                            absl::string_view client_nonce,
                                            absl::string_view server_nonce) {
  const auto mac = [&](absl::string_view direction) -> absl::StatusOr<KeyedMac> {
    const absl::StatusOr<std::string> key =
        DirectionKey(token, client_nonce, server_nonce, direction);
    if (!key.ok()) return key.status();
    return KeyedMac::Create(*key);
  };
  absl::StatusOr<KeyedMac> of_client = mac("of the client");
  if (!of_client.ok()) return of_client.status();
  absl::StatusOr<KeyedMac> of_server = mac("of the server");
  if (!of_server.ok()) return of_server.status();
  if (side == Side::kServer) std::swap(*of_client, *of_server);
  return FrameSeal(*std::move(of_client), *std::move(of_server));
}

absl::Status FrameSeal::Seal(std::string* frame) {
  std::string seal;
  absl::Status status = sends_.Append(sent_++, MessageOf(*frame), &seal);
  if (status.ok()) ExtendFrame(frame, seal);
  return status;
}

absl::Status FrameSeal::Seal(FrameParts* frame) {
  std::string seal;
  absl::string_view shared;
  if (frame->shared != nullptr) shared = *frame->shared;
  absl::Status status =
      sends_.Append(sent_++, {MessageOf(frame->head), shared, frame->tail}, &seal);
  if (status.ok()) ExtendFrame(frame, seal);
  return status;
}

absl::Status FrameSeal::Broken(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(what, ": ", kWhoElse));
}

absl::StatusOr<absl::string_view> FrameSeal::Open(absl::string_view body) {
  const uint64_t number = received_++;
  if (body.size() < kBytes) {
    return Broken(absl::StrCat("frame ", number, " came with ", body.size(), " bytes and no seal"));
  }
  const absl::string_view message = body.substr(0, body.size() - kBytes);
  std::string expected;
  absl::Status status = receives_.Append(number, message, &expected);
  if (!status.ok()) return status;
  if (!SameProof(expected, body.substr(message.size()))) {
    return Broken(absl::StrCat("frame ", number, " was altered, replayed or out of order"));
  }
  return message;
}

}  // namespace muster::store_internal
