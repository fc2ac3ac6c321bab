#include "muster/backends/reference/star.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "muster/backends/reference/frame.h"
#include "muster/core/collective/data_type.h"
#include "muster/core/collective/reduce_op.h"

namespace muster::reference {
namespace {

using Ints = std::vector<int32_t>;

Frame Call(Kind kind, int64_t count, int root = -1, ReduceOp op = ReduceOp::kSum) {
  Frame call;
  call.kind = kind;
  call.dtype = static_cast<uint8_t>(DataType::kI32);
  call.op = static_cast<uint8_t>(op);
  call.count = count;
  call.root = root;
  return call;
}

// The answers as numbers, one list a rank; empty after an error.
std::vector<Ints> Answered(const Frame& call, const std::vector<Ints>& given) {
  std::vector<absl::string_view> bytes;
  for (const Ints& ints : given) {
    bytes.emplace_back(reinterpret_cast<const char*>(ints.data()), 4 * ints.size());
  }
  absl::StatusOr<Answers> answers = Answer(call, bytes);
  std::vector<Ints> result;
  if (!answers.ok()) return result;
  for (absl::string_view of_rank : answers->of_rank) {
    Ints ints(of_rank.size() / 4);
    if (!ints.empty()) std::memcpy(ints.data(), of_rank.data(), of_rank.size());
    result.push_back(ints);
  }
  return result;
}

TEST(StarTest, EachCollectiveIsWhatItsNameSays) {
  using Lists = std::vector<Ints>;
  const Lists two = {{1, 2}, {30, 40}};
  EXPECT_EQ(Answered(Call(Kind::kAllReduce, 2), two), (Lists{{31, 42}, {31, 42}}));
  EXPECT_EQ(Answered(Call(Kind::kReduce, 2, 1, ReduceOp::kMax), two), (Lists{{}, {30, 40}}));
  EXPECT_EQ(Answered(Call(Kind::kReduceScatter, 2), two), (Lists{{31}, {42}}));
  EXPECT_EQ(Answered(Call(Kind::kAllGather, 2), two), (Lists{{1, 2, 30, 40}, {1, 2, 30, 40}}));
  EXPECT_EQ(Answered(Call(Kind::kGather, 2, 0), two), (Lists{{1, 2, 30, 40}, {}}));
  EXPECT_EQ(Answered(Call(Kind::kBroadcast, 2, 1), {{}, {5, 6}}), (Lists{{5, 6}, {}}));
  EXPECT_EQ(Answered(Call(Kind::kScatter, 1, 0), {{7, 8}, {}}), (Lists{{7}, {8}}));
  EXPECT_EQ(Answered(Call(Kind::kAllToAll, 2), two), (Lists{{1, 30}, {2, 40}}));
  EXPECT_EQ(Answered(Call(Kind::kBarrier, 0), {{}, {}}), (Lists{{}, {}}));
}

TEST(StarTest, OneRankGetsItsOwn) {
  using Lists = std::vector<Ints>;
  EXPECT_EQ(Answered(Call(Kind::kAllReduce, 2), {{1, 2}}), (Lists{{1, 2}}));
  EXPECT_EQ(Answered(Call(Kind::kAllToAll, 2), {{1, 2}}), (Lists{{1, 2}}));
  EXPECT_EQ(Answered(Call(Kind::kReduceScatter, 2), {{1, 2}}), (Lists{{1, 2}}));
}

std::string WithCounts(const std::vector<int64_t>& in, const std::vector<int64_t>& out,
                       const Ints& elements) {
  std::string bytes(reinterpret_cast<const char*>(in.data()), 8 * in.size());
  bytes.append(reinterpret_cast<const char*>(out.data()), 8 * out.size());
  bytes.append(reinterpret_cast<const char*>(elements.data()), 4 * elements.size());
  return bytes;
}

TEST(StarTest, AllToAllVHandsOutByCounts) {
  const std::string zero = WithCounts({1, 2}, {1, 0}, {10, 11, 12});
  const std::string one = WithCounts({0, 1}, {2, 1}, {20});
  absl::StatusOr<Answers> answers = Answer(Call(Kind::kAllToAllV, 0), {zero, one});
  ASSERT_TRUE(answers.ok()) << answers.status();
  const Ints first = {10};
  const Ints second = {11, 12, 20};
  EXPECT_EQ(answers->of_rank[0], absl::string_view(reinterpret_cast<const char*>(first.data()), 4));
  EXPECT_EQ(answers->of_rank[1],
            absl::string_view(reinterpret_cast<const char*>(second.data()), 12));
}

TEST(StarTest, AllToAllVNamesTheRanksWhoseCountsDiffer) {
  const std::string zero = WithCounts({0, 2}, {0, 0}, {10, 11});
  const std::string one = WithCounts({0, 0}, {3, 0}, {});
  EXPECT_EQ(
      Answer(Call(Kind::kAllToAllV, 0), {zero, one}).status(),
      absl::InvalidArgumentError("rank 0 sends 2 elements to rank 1, which expects 3 from it"));
}

}  // namespace
}  // namespace muster::reference
