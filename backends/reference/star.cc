#include "muster/backends/reference/star.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "muster/backends/reference/frame.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduction.h"

namespace muster::reference {
namespace {

using Given = std::vector<absl::string_view>;

Answers SameForAll(std::string bytes, size_t size) {
  Answers answers;
  answers.storage.push_back(std::move(bytes));
  answers.of_rank.assign(size, answers.storage[0]);
  return answers;
}

// Rank r takes slice r.
Answers Slices(std::string bytes, size_t size) {
  Answers answers = SameForAll(std::move(bytes), size);
  const size_t slice = answers.storage[0].size() / size;
  for (size_t r = 0; r < size; ++r) {
    answers.of_rank[r] = absl::string_view(answers.storage[0]).substr(r * slice, slice);
  }
  return answers;
}

Answers OnlyFor(int rank, std::string bytes, size_t size) {
  Answers answers = SameForAll(std::move(bytes), size);
  for (size_t r = 0; r < size; ++r) {
    if (static_cast<int>(r) != rank) answers.of_rank[r] = absl::string_view();
  }
  return answers;
}

std::string Reduce(const Frame& call, const Given& given) {
  Accumulator accumulator(call.count, call.type(), call.reduction());
  for (absl::string_view bytes : given) accumulator.Add(bytes.data());
  std::string result(static_cast<size_t>(call.count * SizeOf(call.type())), '\0');
  accumulator.Finish(result.data(), static_cast<int64_t>(given.size()));
  return result;
}

// Slice r of what rank s gave is slice s of what rank r takes.
Answers Transpose(const Given& given) {
  Answers answers;
  const size_t size = given.size();
  const size_t slice = given[0].size() / size;
  answers.storage.resize(size);
  for (size_t r = 0; r < size; ++r) {
    for (absl::string_view bytes : given) {
      answers.storage[r].append(bytes.data() + r * slice, slice);
    }
  }
  answers.of_rank.assign(answers.storage.begin(), answers.storage.end());
  return answers;
}

absl::StatusOr<Answers> TransposeByCounts(const Frame& call, const Given& given) {
  const size_t size = given.size();
  const size_t element = static_cast<size_t>(SizeOf(call.type()));
  std::vector<std::vector<int64_t>> in_counts(size, std::vector<int64_t>(size));
  std::vector<std::vector<int64_t>> out_counts(size, std::vector<int64_t>(size));
  std::vector<absl::string_view> rest;  // of each rank: the elements that are not handed out yet
  for (size_t r = 0; r < size; ++r) {
    const size_t bytes = size * sizeof(int64_t);
    if (given[r].size() < 2 * bytes) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", r, " sent no counts"));
    }
    std::memcpy(in_counts[r].data(), given[r].data(), bytes);
    std::memcpy(out_counts[r].data(), given[r].data() + bytes, bytes);
    rest.push_back(given[r].substr(2 * bytes));
  }
  Answers answers;
  answers.storage.resize(size);
  for (size_t r = 0; r < size; ++r) {
    for (size_t from = 0; from < size; ++from) {
      const int64_t sent = in_counts[from][r];
      const int64_t expected = out_counts[r][from];
      const size_t wanted = static_cast<size_t>(sent) * element;
      if (sent != expected || sent < 0 || wanted > rest[from].size()) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", from, " sends ", sent,
                                                       " elements to rank ", r, ", which expects ",
                                                       expected, " from it"));
      }
      answers.storage[r].append(rest[from].data(), wanted);
      rest[from].remove_prefix(wanted);
    }
  }
  answers.of_rank.assign(answers.storage.begin(), answers.storage.end());
  return answers;
}

}  // namespace

absl::StatusOr<Answers> Answer(const Frame& call, const Given& given) {
  const size_t size = given.size();
  switch (call.kind) {
    case Kind::kAllReduce:
      return SameForAll(Reduce(call, given), size);
    case Kind::kReduce:
      return OnlyFor(call.root, Reduce(call, given), size);
    case Kind::kReduceScatter:
      return Slices(Reduce(call, given), size);
    case Kind::kBroadcast: {
      Answers answers = SameForAll(std::string(given[static_cast<size_t>(call.root)]), size);
      answers.of_rank[static_cast<size_t>(call.root)] = absl::string_view();
      return answers;
    }
    case Kind::kScatter:
      return Slices(std::string(given[static_cast<size_t>(call.root)]), size);
    case Kind::kAllGather:
    case Kind::kSplit:
      return SameForAll(absl::StrJoin(given, ""), size);
    case Kind::kGather:
      return OnlyFor(call.root, absl::StrJoin(given, ""), size);
    case Kind::kAllToAll:
      return Transpose(given);
    case Kind::kAllToAllV:
      return TransposeByCounts(call, given);
    case Kind::kBarrier:
      return SameForAll(std::string(), size);
    case Kind::kSend:
    case Kind::kResult:
    case Kind::kError:
      break;
  }
  return absl::InternalError(absl::StrCat(call.ToString(), " is not a collective"));
}

}  // namespace muster::reference
