#include "muster/core/collective/communicator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {
namespace {

constexpr Capability kAllCapabilities[] = {
    Capability::kAllReduce,     Capability::kBroadcast, Capability::kReduce,
    Capability::kAllGather,     Capability::kGather,    Capability::kScatter,
    Capability::kReduceScatter, Capability::kAllToAll,  Capability::kBarrier,
    Capability::kSendReceive,   Capability::kSplit,     Capability::kAllocate,
    Capability::kRegister,
};

absl::Status NotOffered(absl::string_view operation) {
  return absl::UnimplementedError(absl::StrCat(operation, " is not offered by this backend"));
}

void AppendCount(int64_t count, absl::string_view what, std::vector<std::string>& parts) {
  if (count != 0) parts.push_back(absl::StrCat(count, " ", what, count == 1 ? "" : "s"));
}

}  // namespace

absl::string_view Name(Capability capability) {
  switch (capability) {
    case Capability::kAllReduce:
      return "all_reduce";
    case Capability::kBroadcast:
      return "broadcast";
    case Capability::kReduce:
      return "reduce";
    case Capability::kAllGather:
      return "all_gather";
    case Capability::kGather:
      return "gather";
    case Capability::kScatter:
      return "scatter";
    case Capability::kReduceScatter:
      return "reduce_scatter";
    case Capability::kAllToAll:
      return "all_to_all";
    case Capability::kBarrier:
      return "barrier";
    case Capability::kSendReceive:
      return "send_receive";
    case Capability::kSplit:
      return "split";
    case Capability::kAllocate:
      return "allocate";
    case Capability::kRegister:
      return "register";
  }
  return "unknown";
}

std::string Capabilities::ToString() const {
  std::vector<absl::string_view> names;
  for (Capability c : kAllCapabilities) {
    if (Has(c)) names.push_back(Name(c));
  }
  return names.empty() ? "nothing" : absl::StrJoin(names, ", ");
}

absl::StatusOr<Capabilities> Capabilities::Parse(absl::string_view list) {
  Capabilities parsed;
  if (absl::StripAsciiWhitespace(list) == Capabilities().ToString()) return parsed;
  for (absl::string_view word : absl::StrSplit(list, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    const auto* const known =
        std::find_if(std::begin(kAllCapabilities), std::end(kAllCapabilities),
                     [word](Capability capability) { return Name(capability) == word; });
    if (known == std::end(kAllCapabilities)) {
      const auto name = [](std::string* out, Capability c) { absl::StrAppend(out, Name(c)); };
      return absl::InvalidArgumentError(absl::StrCat("unknown capability \"", word, "\" in \"",
                                                     list, "\": expected some of ",
                                                     absl::StrJoin(kAllCapabilities, ", ", name)));
    }
    parsed.bits_ |= static_cast<uint32_t>(*known);
  }
  return parsed;
}

std::string Holdings::ToString() const {
  std::vector<std::string> parts;
  AppendCount(file_descriptors, "file descriptor", parts);
  AppendCount(threads, "thread", parts);
  AppendCount(memory_segments, "shared-memory segment", parts);
  AppendCount(device_objects, "device object", parts);
  AppendCount(device_bytes, "device byte", parts);
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

absl::Status Communicator::AllReduce(ConstBuffer, Buffer, ReduceOp, const OperationOptions&) {
  return NotOffered("all_reduce");
}

absl::Status Communicator::Broadcast(Buffer, int, const OperationOptions&) {
  return NotOffered("broadcast");
}

absl::Status Communicator::Reduce(ConstBuffer, Buffer, ReduceOp, int, const OperationOptions&) {
  return NotOffered("reduce");
}

absl::Status Communicator::AllGather(ConstBuffer, Buffer, const OperationOptions&) {
  return NotOffered("all_gather");
}

absl::Status Communicator::Gather(ConstBuffer, Buffer, int, const OperationOptions&) {
  return NotOffered("gather");
}

absl::Status Communicator::Scatter(ConstBuffer, Buffer, int, const OperationOptions&) {
  return NotOffered("scatter");
}

absl::Status Communicator::ReduceScatter(ConstBuffer, Buffer, ReduceOp, const OperationOptions&) {
  return NotOffered("reduce_scatter");
}

absl::Status Communicator::AllToAll(ConstBuffer, Buffer, const OperationOptions&) {
  return NotOffered("all_to_all");
}

absl::Status Communicator::AllToAllV(ConstBuffer, absl::Span<const int64_t>, Buffer,
                                     absl::Span<const int64_t>, const OperationOptions&) {
  return NotOffered("all_to_all_v");
}

absl::Status Communicator::Barrier(const OperationOptions&) { return NotOffered("barrier"); }

absl::Status Communicator::Send(ConstBuffer, int, const OperationOptions&) {
  return NotOffered("send");
}

absl::Status Communicator::Receive(Buffer, int, const OperationOptions&) {
  return NotOffered("receive");
}

absl::Status Communicator::Transfer(absl::Span<const PeerTransfer>, const OperationOptions&) {
  return NotOffered("transfer");
}

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Split(int, int, const ConnectContext&) {
  return NotOffered("split");
}

absl::StatusOr<std::unique_ptr<CommunicatorMemory>> Communicator::Allocate(int64_t) {
  return NotOffered("allocate");
}

absl::StatusOr<uint64_t> Communicator::Register(Buffer) { return NotOffered("register"); }

absl::Status Communicator::Deregister(uint64_t) { return NotOffered("deregister"); }

}  // namespace muster
