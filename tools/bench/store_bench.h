// What creating and closing a group costs on the job's store: N ranks as threads of this process.
//
//   absl::StatusOr<std::unique_ptr<StoreBench>> bench = StoreBench::Create(256, folder);
//   absl::StatusOr<StoreCost> cost = (*bench)->CreateAndClose("muster/gloo");
//
// The store's server, its unix socket, the ranks' connections, pools and protocols are the real
// ones. Only the backends are stand-ins: they say to the store what theirs say, and connect
// nobody. N * (N - 1) / 2 connections within one process would be all that is measured.
#ifndef MUSTER_TOOLS_BENCH_STORE_BENCH_H_
#define MUSTER_TOOLS_BENCH_STORE_BENCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>  // NOLINT(build/c++11): the ranks
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "muster/core/collective/backend.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace bench {

// Of one Acquire and one Close by every rank.
struct StoreCost {
  absl::Duration slowest;  // rank; they share the cores
  // The server's share of a rank.
  double server_us = 0;  // of its thread on a core
  double requests = 0;
  double bytes = 0;  // of messages, both ways
};

// CreateAndClose is for one thread at a time.
class StoreBench {
 public:
  // The store's socket is in `folder`. ResourceExhausted when the limit on descriptors is too low.
  // `backends`: null for the stand-ins; else what "muster/<name>" names, and outlives this.
  static absl::StatusOr<std::unique_ptr<StoreBench>> Create(int ranks, const std::string& folder,
                                                            BackendRegistry* backends = nullptr);
  ~StoreBench();

  absl::StatusOr<StoreCost> CreateAndClose(absl::string_view subject);

 private:
  // All ranks do the same thing at once, each on its own thread.
  enum class Step { kJoin, kCreateAndClose, kEnd };

  StoreBench(int ranks, BackendRegistry* backends);
  absl::Status Start(const std::string& folder);
  absl::Status OnAllRanks(Step step) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunRank(int rank) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Do(Step step, int rank, std::unique_ptr<GroupPool>* pool,
                  absl::Duration* took) const;
  absl::Duration ServerTime() const;

  const int ranks_;
  BackendRegistry stand_ins_;
  BackendRegistry* const backends_;
  std::unique_ptr<ControlThread> control_;  // the server's
  std::unique_ptr<TcpStoreServer> server_;
  std::string backend_;  // of the step; written between two of them
  std::vector<std::thread> threads_;

  absl::Mutex mutex_;
  absl::CondVar begun_;
  absl::CondVar done_;
  Step step_ ABSL_GUARDED_BY(mutex_) = Step::kJoin;
  int64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  absl::Duration slowest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_STORE_BENCH_H_
