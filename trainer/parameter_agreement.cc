#include "muster/trainer/parameter_agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {
namespace {

constexpr int64_t kDescriptionBytes = 160;

// "hidden.weight f32[256,784]"
std::string Describe(const Parameter& parameter) {
  return absl::StrCat(parameter.name, " ", Name(parameter.data.dtype), "[",
                      absl::StrJoin(parameter.shape, ","), "]");
}

int64_t Checksum(absl::string_view text) {
  return Checksum(
      ConstBuffer{text.data(), static_cast<int64_t>(text.size()), DataType::kU8, Device::Cpu()});
}

// The first parameter, and for it the first rank, whose sum is not that of rank 0; parameter -1:
// there is none.
struct Difference {
  int parameter = -1;
  int rank = 0;
};

absl::StatusOr<Difference> FindDifference(Collectives& collectives,
                                          const std::vector<int64_t>& sums) {
  const size_t count = sums.size();
  std::vector<int64_t> all(count * collectives.size());
  absl::Status status = collectives.AllGather(ConstBuffer::Of(absl::MakeConstSpan(sums)),
                                              Buffer::Of(absl::MakeSpan(all)));
  if (!status.ok()) return status;
  for (size_t i = 0; i < count; ++i) {
    for (int rank = 1; rank < collectives.size(); ++rank) {
      if (all[rank * count + i] != all[i]) return Difference{static_cast<int>(i), rank};
    }
  }
  return Difference{};
}

absl::Status Invalid(const Parameter& parameter, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter ", Describe(parameter), " of the module ", what));
}

}  // namespace

absl::Status ValidateParameters(absl::Span<const Parameter> parameters) {
  if (parameters.empty()) {
    return absl::InvalidArgumentError("the module has no parameters: there is nothing to train");
  }
  std::set<std::string> names;
  for (const Parameter& parameter : parameters) {
    int64_t elements = 1;
    for (int64_t extent : parameter.shape) elements *= extent;
    const Buffer& data = parameter.data;
    const Buffer& gradient = parameter.gradient;
    if (parameter.name.empty()) return Invalid(parameter, "has no name");
    if (!names.insert(parameter.name).second) return Invalid(parameter, "has another's name");
    if (data.device != Device::Cpu() || gradient.device != Device::Cpu()) {
      return absl::UnimplementedError(absl::StrCat("parameter ", Describe(parameter), " is on ",
                                                   data.device.ToString(),
                                                   ": the trainer knows the CPU alone"));
    }
    if (data.dtype != DataType::kF32 && data.dtype != DataType::kF64) {
      return Invalid(parameter, absl::StrCat("is ", Name(data.dtype), ": use f32 or f64"));
    }
    if (data.count < 1 || data.data == nullptr) return Invalid(parameter, "has no elements");
    if (elements != data.count) {
      return Invalid(parameter, absl::StrCat("has ", data.count, " elements and a shape of ",
                                             elements, ": set Parameter::shape to {", data.count,
                                             "}, or as the model has it"));
    }
    if (gradient.data == nullptr || gradient.count != data.count || gradient.dtype != data.dtype) {
      return Invalid(parameter,
                     absl::StrCat("has a gradient ", gradient.ToString(),
                                  ": it needs memory, and the parameter's count and type"));
    }
  }
  return absl::OkStatus();
}

absl::Status VerifySameModel(Collectives& collectives, absl::Span<const Parameter> parameters,
                             const BucketLayout& layout) {
  std::vector<int64_t> sums;
  for (size_t i = 0; i < parameters.size(); ++i) {
    sums.push_back(Checksum(absl::StrCat(Describe(parameters[i]), " in bucket ",
                                         layout.slots[i].bucket, " at ", layout.slots[i].offset)));
  }
  absl::StatusOr<Difference> difference = FindDifference(collectives, sums);
  if (!difference.ok()) return difference.status();
  if (difference->parameter < 0) return absl::OkStatus();

  // All ranks found the same difference, so all come here.
  std::vector<char> mine(kDescriptionBytes, '\0');
  const std::string description = Describe(parameters[difference->parameter]);
  std::copy_n(description.data(), std::min<size_t>(description.size(), kDescriptionBytes - 1),
              mine.data());
  std::vector<char> all(kDescriptionBytes * collectives.size());
  absl::Status status = collectives.AllGather(
      ConstBuffer{mine.data(), kDescriptionBytes, DataType::kU8, Device::Cpu()},
      Buffer{all.data(), static_cast<int64_t>(all.size()), DataType::kU8, Device::Cpu()});
  if (!status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter ", difference->parameter, " is ", &all[difference->rank * kDescriptionBytes],
      " on rank ", difference->rank, " and ", all.data(),
      " on rank 0: give every rank the same model and bucket sizes"));
}

absl::Status BroadcastParameters(Collectives& collectives, absl::Span<const Parameter> parameters) {
  for (const Parameter& parameter : parameters) {
    absl::Status status = collectives.Broadcast(parameter.data, 0);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status VerifySameValues(Collectives& collectives, absl::Span<const Parameter> parameters,
                              absl::string_view when) {
  std::vector<int64_t> sums;
  for (const Parameter& parameter : parameters) sums.push_back(Checksum(parameter.data));
  absl::StatusOr<Difference> difference = FindDifference(collectives, sums);
  if (!difference.ok()) return difference.status();
  if (difference->parameter < 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      when, ": parameter ", parameters[difference->parameter].name, " of rank ", difference->rank,
      " differs from rank 0's: all ranks must have the same weights"));
}

int64_t Checksum(ConstBuffer values) {
  // FNV-1a over words of 8 bytes (the last one filled with zeros) with a final mix, so that a
  // word's high bits reach the low ones.
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325 ^ static_cast<uint64_t>(values.bytes());
  const char* bytes = static_cast<const char*>(values.data);
  for (int64_t i = 0; i < values.bytes(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, static_cast<size_t>(std::min<int64_t>(8, values.bytes() - i)));
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29;
  }
  hash *= 0x9e3779b97f4a7c15;
  return static_cast<int64_t>(hash ^ (hash >> 32));
}

}  // namespace muster
