// The fixture of the conformance tests: what every Store promises (store.h), run against each kind
// of store.
//
//   TEST_P(StoreConformanceTest, ...) { auto stores = ConnectAll(2); ... }
//   MUSTER_INSTANTIATE_FOR_ALL_STORES();
#ifndef MUSTER_CORE_STORE_STORE_CONFORMANCE_H_
#define MUSTER_CORE_STORE_STORE_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/store_harness.h"

namespace muster::store_testing {

inline constexpr int kWorldSize = 4;

struct Kind {
  std::string name;
  std::unique_ptr<StoreHarness> (*make)(int world_size);
};

inline SessionInfo Info(int rank, uint64_t incarnation = 1) {
  SessionInfo info;
  info.rank = rank;
  info.world_size = kWorldSize;
  info.host = "a";
  info.pid = 100 * static_cast<int64_t>(incarnation) + rank;
  info.incarnation = incarnation * 1000 + rank;
  return info;
}

class StoreConformanceTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { harness_ = GetParam().make(kWorldSize); }

  std::unique_ptr<Store> Connect(int rank, uint64_t incarnation = 1) {
    auto store = harness_->Connect(Info(rank, incarnation));
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  std::vector<std::unique_ptr<Store>> ConnectAll(int count = kWorldSize) {
    std::vector<std::unique_ptr<Store>> stores;
    for (int rank = 0; rank < count; ++rank) stores.push_back(Connect(rank));
    return stores;
  }

  std::unique_ptr<StoreHarness> harness_;
};

// Once in each file of tests.
#define MUSTER_INSTANTIATE_FOR_ALL_STORES()                                             \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      Stores, StoreConformanceTest,                                                     \
      ::testing::Values(Kind{"Memory", MakeMemoryHarness}, Kind{"Tcp", MakeTcpHarness}, \
                        Kind{"Unix", MakeUnixHarness}),                                 \
      [](const auto& info) { return info.param.name; })

}  // namespace muster::store_testing

#endif  // MUSTER_CORE_STORE_STORE_CONFORMANCE_H_
