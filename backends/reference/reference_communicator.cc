#include "muster/backends/reference/reference_communicator.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/flow.h"
#include "muster/backends/reference/frame.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/backends/reference/mesh.h"
#include "muster/backends/reference/star.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/device.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/platform/cancellation.h"

namespace muster::reference {
namespace {

constexpr int kNoRoot = -1;
constexpr int64_t kMaxErrorText = 4096;

Frame Call(Kind kind, const ConstBuffer& counted, int root, ReduceOp op = ReduceOp::kSum) {
  Frame frame;
  frame.kind = kind;
  frame.dtype = static_cast<uint8_t>(counted.dtype);
  frame.op = static_cast<uint8_t>(op);
  frame.root = root;
  frame.count = counted.count;
  return frame;
}

absl::string_view Bytes(const void* data, int64_t bytes) {
  return absl::string_view(static_cast<const char*>(data), static_cast<size_t>(bytes));
}

void Copy(absl::string_view from, char* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

absl::Status Disagreement(int rank, const Frame& call, int other_rank, const Frame& other) {
  return absl::InvalidArgumentError(absl::StrCat("the ranks called different operations: rank ",
                                                 rank, " ", call.ToString(), ", rank ", other_rank,
                                                 " ", other.ToString()));
}

}  // namespace

// --- Collectives

absl::Status ReferenceCommunicator::Collective(Frame call, absl::string_view give, void* take,
                                               absl::Time deadline) {
  const int64_t given = static_cast<int64_t>(give.size());
  return Operation(std::max(given, BytesTaken(call, rank_, size())),
                   [&] { return Exchange(call, give, take, deadline); });
}

absl::Status ReferenceCommunicator::Exchange(Frame call, absl::string_view give, void* take,
                                             absl::Time deadline) {
  call.bytes = static_cast<int64_t>(give.size());
  char* const to = static_cast<char*>(take);
  return rank_ == 0 ? ServeAsRankZero(call, give, to, deadline)
                    : AskRankZero(call, give, to, BytesTaken(call, rank_, size()), deadline);
}

absl::Status ReferenceCommunicator::AskRankZero(const Frame& call, absl::string_view give,
                                                char* take, int64_t taken, absl::Time deadline) {
  Frame answer;
  std::vector<Flow> flows = {
      Flow::Send(fd(0), 0, &call, sizeof(call)),
      Flow::Send(fd(0), 0, give.data(), call.bytes),
      Flow::Receive(fd(0), 0, &answer, sizeof(answer)),
  };
  // An error may come before everything was sent.
  absl::Status status = Run(flows, /*until=*/2, *interrupt_, deadline);
  if (!status.ok()) return status;
  if (answer.kind == Kind::kError) return ReadError(0, answer, deadline);
  if (answer.kind != Kind::kResult || answer.magic != Frame::kMagic) {
    return Disagreement(rank_, call, 0, answer);
  }
  if (call.kind != Kind::kAllToAllV && answer.bytes != taken) {
    return absl::InternalError(absl::StrCat("rank 0 answered with ", answer.bytes, " bytes to ",
                                            call.ToString(), ", which takes ", taken));
  }
  flows = {Flow::Receive(fd(0), 0, take, answer.bytes)};
  return Run(flows, -1, *interrupt_, deadline);
}

absl::Status ReferenceCommunicator::ServeAsRankZero(const Frame& call, absl::string_view give,
                                                    char* take, absl::Time deadline) {
  bool answering = false;
  absl::Status status = CollectAndAnswer(call, give, take, deadline, answering);
  // In the middle of the answers an error could not be told from data.
  if (!status.ok() && !answering) TellAll(status);
  return status;
}

absl::Status ReferenceCommunicator::CollectAndAnswer(const Frame& call, absl::string_view give,
                                                     char* take, absl::Time deadline,
                                                     bool& answering) {
  const size_t ranks = static_cast<size_t>(size());
  std::vector<Frame> calls(ranks);
  std::vector<Flow> flows;
  for (int r = 1; r < size(); ++r) {
    Frame& other = calls[static_cast<size_t>(r)];
    flows.push_back(Flow::Receive(fd(r), r, &other, sizeof(other)));
    flows.back().complete = [this, &call, &other, r] {
      if (!call.SameCall(other)) return Disagreement(0, call, r, other);
      if (call.kind != Kind::kAllToAllV && other.bytes != BytesGiven(call, r, size())) {
        return absl::InternalError(
            absl::StrCat("rank ", r, " gives ", other.bytes, " bytes to ", call.ToString()));
      }
      return absl::OkStatus();
    };
  }
  absl::Status status = Run(flows, -1, *interrupt_, deadline);
  if (!status.ok()) return status;

  std::vector<std::vector<char>> received(ranks);
  std::vector<absl::string_view> given(ranks);
  given[0] = give;
  flows.clear();
  for (int r = 1; r < size(); ++r) {
    std::vector<char>& bytes = received[static_cast<size_t>(r)];
    bytes.resize(static_cast<size_t>(calls[static_cast<size_t>(r)].bytes));
    given[static_cast<size_t>(r)] = absl::string_view(bytes.data(), bytes.size());
    flows.push_back(Flow::Receive(fd(r), r, bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  status = Run(flows, -1, *interrupt_, deadline);
  if (!status.ok()) return status;

  absl::StatusOr<Answers> answers = Answer(call, given);
  if (!answers.ok()) return answers.status();

  answering = true;
  std::vector<Frame> results(ranks);
  flows.clear();
  for (int r = 1; r < size(); ++r) {
    const absl::string_view bytes = answers->of_rank[static_cast<size_t>(r)];
    Frame& result = results[static_cast<size_t>(r)];
    result.kind = Kind::kResult;
    result.bytes = static_cast<int64_t>(bytes.size());
    flows.push_back(Flow::Send(fd(r), r, &result, sizeof(result)));
    flows.push_back(Flow::Send(fd(r), r, bytes.data(), result.bytes));
  }
  status = Run(flows, -1, *interrupt_, deadline);
  if (!status.ok()) return status;
  Copy(answers->of_rank[0], take);
  return absl::OkStatus();
}

void ReferenceCommunicator::TellAll(const absl::Status& error) {
  const absl::string_view text = error.message().substr(0, kMaxErrorText);
  Frame frame;
  frame.kind = Kind::kError;
  frame.count = static_cast<int64_t>(error.code());
  frame.bytes = static_cast<int64_t>(text.size());
  std::string message(reinterpret_cast<const char*>(&frame), sizeof(frame));
  message.append(text.data(), text.size());
  for (int r = 1; r < size(); ++r) {
    // It fits into an idle connection; where it does not, that rank finds out by itself.
    send(fd(r), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

absl::Status ReferenceCommunicator::ReadError(int peer, const Frame& frame, absl::Time deadline) {
  std::string text(static_cast<size_t>(std::clamp<int64_t>(frame.bytes, 0, kMaxErrorText)), '\0');
  std::vector<Flow> flows = {
      Flow::Receive(fd(peer), peer, text.data(), static_cast<int64_t>(text.size()))};
  absl::Status status = Run(flows, -1, *interrupt_, deadline);
  if (!status.ok()) return status;
  const auto code = static_cast<absl::StatusCode>(frame.count);
  return absl::Status(code == absl::StatusCode::kOk ? absl::StatusCode::kInternal : code, text);
}

absl::Status ReferenceCommunicator::AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                                              const OperationOptions& options) {
  return Collective(Call(Kind::kAllReduce, in, kNoRoot, op), Bytes(in.data, in.bytes()), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::Broadcast(Buffer buffer, int root,
                                              const OperationOptions& options) {
  const int64_t given = rank_ == root ? buffer.bytes() : 0;
  return Collective(Call(Kind::kBroadcast, buffer, root), Bytes(buffer.data, given), buffer.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root,
                                           const OperationOptions& options) {
  return Collective(Call(Kind::kReduce, in, root, op), Bytes(in.data, in.bytes()), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::AllGather(ConstBuffer in, Buffer out,
                                              const OperationOptions& options) {
  return Collective(Call(Kind::kAllGather, in, kNoRoot), Bytes(in.data, in.bytes()), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::Gather(ConstBuffer in, Buffer out, int root,
                                           const OperationOptions& options) {
  return Collective(Call(Kind::kGather, in, root), Bytes(in.data, in.bytes()), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::Scatter(ConstBuffer in, Buffer out, int root,
                                            const OperationOptions& options) {
  const int64_t given = rank_ == root ? in.bytes() : 0;
  return Collective(Call(Kind::kScatter, out, root), Bytes(in.data, given), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op,
                                                  const OperationOptions& options) {
  return Collective(Call(Kind::kReduceScatter, in, kNoRoot, op), Bytes(in.data, in.bytes()),
                    out.data, options.deadline);
}

absl::Status ReferenceCommunicator::AllToAll(ConstBuffer in, Buffer out,
                                             const OperationOptions& options) {
  return Collective(Call(Kind::kAllToAll, in, kNoRoot), Bytes(in.data, in.bytes()), out.data,
                    options.deadline);
}

absl::Status ReferenceCommunicator::AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts,
                                              Buffer out, absl::Span<const int64_t> out_counts,
                                              const OperationOptions& options) {
  return Operation(in.bytes(), [&] {
    const int64_t bytes_of_counts = size() * static_cast<int64_t>(sizeof(int64_t));
    std::string give(Bytes(in_counts.data(), bytes_of_counts));
    give.append(Bytes(out_counts.data(), bytes_of_counts));
    give.append(Bytes(in.data, in.bytes()));
    Frame call = Call(Kind::kAllToAllV, in, kNoRoot);
    call.count = 0;  // differs between the ranks
    return Exchange(call, give, out.data, options.deadline);
  });
}

absl::Status ReferenceCommunicator::Barrier(const OperationOptions& options) {
  Frame call;
  return Collective(call, absl::string_view(), nullptr, options.deadline);
}

// --- Point to point

absl::Status ReferenceCommunicator::Send(ConstBuffer buffer, int peer,
                                         const OperationOptions& options) {
  const Buffer only_read{const_cast<void*>(buffer.data), buffer.count, buffer.dtype, buffer.device};
  return Transfer({{PeerTransfer::Kind::kSend, peer, only_read}}, options);
}

absl::Status ReferenceCommunicator::Receive(Buffer buffer, int peer,
                                            const OperationOptions& options) {
  return Transfer({{PeerTransfer::Kind::kReceive, peer, buffer}}, options);
}

absl::Status ReferenceCommunicator::Transfer(absl::Span<const PeerTransfer> transfers,
                                             const OperationOptions& options) {
  int64_t bytes = 0;
  for (const PeerTransfer& transfer : transfers) bytes += transfer.buffer.bytes();
  return Operation(bytes, [&] { return MovePeerToPeer(transfers, options.deadline); });
}

absl::Status ReferenceCommunicator::MovePeerToPeer(absl::Span<const PeerTransfer> transfers,
                                                   absl::Time deadline) {
  std::vector<Frame> frames(transfers.size());
  std::vector<Flow> flows;
  const Frame* error = nullptr;  // what rank 0 sent where a send was expected
  int error_from = 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const PeerTransfer& transfer = transfers[i];
    const int peer = transfer.peer;
    const int64_t bytes = transfer.buffer.bytes();
    Frame& frame = frames[i];
    if (transfer.kind == PeerTransfer::Kind::kSend) {
      frame = Call(Kind::kSend, transfer.buffer, peer);
      frame.bytes = bytes;
      flows.push_back(Flow::Send(fd(peer), peer, &frame, sizeof(frame)));
      flows.push_back(Flow::Send(fd(peer), peer, transfer.buffer.data, bytes));
      continue;
    }
    flows.push_back(Flow::Receive(fd(peer), peer, &frame, sizeof(frame)));
    flows.back().complete = [this, &frame, &error, &error_from, buffer = transfer.buffer, peer] {
      if (Call(Kind::kSend, buffer, rank_).SameCall(frame)) return absl::OkStatus();
      if (frame.magic == Frame::kMagic && frame.kind == Kind::kError) {
        error = &frame;
        error_from = peer;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank_, " receives ", Name(buffer.dtype), "[", buffer.count,
                       "] from rank ", peer, ", which called ", frame.ToString()));
    };
    flows.push_back(Flow::Receive(fd(peer), peer, transfer.buffer.data, bytes));
  }
  absl::Status status = Run(flows, -1, *interrupt_, deadline);
  return error != nullptr ? ReadError(error_from, *error, deadline) : status;
}

// --- Split

absl::StatusOr<std::unique_ptr<Communicator>> ReferenceCommunicator::Split(
    int color, int key, const ConnectContext& context) {
  // Who cancels the set-up ends this communicator too: the others are no longer where it is.
  Cancellation::Registration registration;
  if (context.cancellation != nullptr) {
    registration = context.cancellation->OnCancel(
        [this](const absl::Status& cause) { interrupt_->Raise(cause); });
  }
  return MakeSplit(color, key, context);
}

absl::StatusOr<std::unique_ptr<Communicator>> ReferenceCommunicator::MakeSplit(
    int color, int key, const ConnectContext& context) {
  struct Ticket {
    int32_t color = 0;
    int32_t key = 0;
    char invitation[Meeting::kMaxInvitation] = {};
  };
  absl::StatusOr<Meeting> meeting = Meeting::Open(context.bind_address);
  if (!meeting.ok()) return meeting.status();
  Ticket mine;
  mine.color = color;
  mine.key = key;
  meeting->invitation().copy(mine.invitation, sizeof(mine.invitation));

  std::vector<Ticket> tickets(static_cast<size_t>(size()));
  const ConstBuffer ticket{&mine, sizeof(mine), DataType::kU8, Device::Cpu()};
  absl::Status status = Collective(Call(Kind::kSplit, ticket, kNoRoot), Bytes(&mine, sizeof(mine)),
                                   tickets.data(), context.deadline);
  if (!status.ok()) return status;
  if (color < 0) return nullptr;

  std::vector<std::pair<int32_t, int>> members;  // key, rank here
  for (int r = 0; r < size(); ++r) {
    const Ticket& other = tickets[static_cast<size_t>(r)];
    if (other.color == color) members.push_back({other.key, r});
  }
  std::sort(members.begin(), members.end());
  int new_rank = 0;
  std::vector<std::string> invitations;
  for (const auto& [other_key, r] : members) {
    if (r == rank_) new_rank = static_cast<int>(invitations.size());
    const char* const text = tickets[static_cast<size_t>(r)].invitation;
    invitations.push_back(std::string(text, strnlen(text, Meeting::kMaxInvitation)));
  }

  auto interrupt = std::make_unique<Interrupt>();
  std::vector<Descriptor> links(1);
  if (members.size() > 1) {
    status = interrupt->Open();
    if (!status.ok()) return status;
    status = Operation(0, [&] {
      absl::StatusOr<std::vector<Descriptor>> met =
          meeting->Meet(new_rank, invitations, *interrupt_, context.deadline);
      if (!met.ok()) return met.status();
      links = *std::move(met);
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
  }
  return std::make_unique<ReferenceCommunicator>(new_rank, std::move(links), std::move(interrupt));
}

}  // namespace muster::reference
