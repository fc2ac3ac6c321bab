#include "muster/trainer/agreement.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int kWordBytes = 8;
constexpr size_t kMessageBytes = 400;

// What one rank says. Of a fixed size, so that ranks which disagree still understand each other.
struct Record {
  int64_t code = 0;  // absl::StatusCode
  int64_t count = 0;
  int64_t bits[kMaxFacts] = {};
  char message[kMessageBytes] = {};  // ends with a zero
};
static_assert(std::is_trivially_copyable_v<Record>);

absl::Status Compare(const std::vector<Record>& records, absl::Span<const Fact> facts) {
  const int size = static_cast<int>(records.size());
  // A fault that every rank has, of the options for example, is under nobody's number.
  const bool same_fault = std::all_of(records.begin(), records.end(), [&](const Record& record) {
    return record.code == records[0].code && std::strcmp(record.message, records[0].message) == 0;
  });
  for (int rank = 0; rank < size; ++rank) {
    const Record& record = records[rank];
    if (record.code == 0) continue;
    return absl::Status(static_cast<absl::StatusCode>(record.code),
                        same_fault ? std::string(record.message)
                                   : absl::StrCat("rank ", rank, ": ", record.message));
  }
  const int64_t common =
      std::min_element(records.begin(), records.end(), [](const Record& a, const Record& b) {
        return a.count < b.count;
      })->count;
  for (int64_t f = 0; f < common; ++f) {
    for (int rank = 1; rank < size; ++rank) {
      const int64_t theirs = records[rank].bits[f];
      const int64_t first = records[0].bits[f];
      if (theirs == first) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, " has ", facts[f].name(), " ", facts[f].Show(theirs), " and rank 0 has ",
          facts[f].Show(first), ": give every rank the same options, model and data"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Fact Fact::Integer(absl::string_view name, int64_t value) {
  return Fact(name, Kind::kInteger, value);
}

Fact Fact::Real(absl::string_view name, double value) {
  int64_t bits = 0;
  static_assert(sizeof(bits) == sizeof(value));
  std::memcpy(&bits, &value, sizeof(bits));
  return Fact(name, Kind::kReal, bits);
}

Fact Fact::Word(absl::string_view name, absl::string_view word) {
  int64_t bits = 0;
  std::memcpy(&bits, word.data(), std::min<size_t>(word.size(), kWordBytes));
  return Fact(name, Kind::kWord, bits);
}

std::string Fact::Show(int64_t bits) const {
  switch (kind_) {
    case Kind::kInteger:
      return absl::StrCat(bits);
    case Kind::kReal: {
      double value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      return absl::StrCat(value);
    }
    case Kind::kWord: {
      char word[kWordBytes + 1] = {};
      std::memcpy(word, &bits, kWordBytes);
      return word;
    }
  }
  return "";
}

absl::Status Agree(Collectives& collectives, const absl::Status& here,
                   absl::Span<const Fact> facts) {
  assert(facts.size() <= static_cast<size_t>(kMaxFacts));
  Record record;
  record.code = here.raw_code();
  record.count = static_cast<int64_t>(facts.size());
  for (size_t f = 0; f < facts.size(); ++f) record.bits[f] = facts[f].bits();
  const size_t length = std::min(here.message().size(), kMessageBytes - 1);
  std::memcpy(record.message, here.message().data(), length);

  std::vector<Record> records(collectives.size());
  const int64_t bytes = sizeof(Record);
  absl::Status status = collectives.AllGather(
      ConstBuffer{&record, bytes, DataType::kU8, Device::Cpu()},
      Buffer{records.data(), bytes * collectives.size(), DataType::kU8, Device::Cpu()});
  if (!status.ok()) return status;
  return Compare(records, facts);
}

}  // namespace muster
