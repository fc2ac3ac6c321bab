// The communicator of the reference backend; see reference_backend.h for how it works.
#ifndef MUSTER_BACKENDS_REFERENCE_REFERENCE_COMMUNICATOR_H_
#define MUSTER_BACKENDS_REFERENCE_REFERENCE_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/frame.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/core/collective/communicator.h"

namespace muster::reference {

class ReferenceCommunicator : public Communicator {
 public:
  // `links[r]` is connected to rank r; that of `rank` itself is closed. `interrupt` is open unless
  // this is the only rank.
  ReferenceCommunicator(int rank, std::vector<Descriptor> links,
                        std::unique_ptr<Interrupt> interrupt);
  ~ReferenceCommunicator() override;

  absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                         const OperationOptions& options) override;
  absl::Status Broadcast(Buffer buffer, int root, const OperationOptions& options) override;
  absl::Status Reduce(ConstBuffer in, Buffer out, ReduceOp op, int root,
                      const OperationOptions& options) override;
  absl::Status AllGather(ConstBuffer in, Buffer out, const OperationOptions& options) override;
  absl::Status Gather(ConstBuffer in, Buffer out, int root,
                      const OperationOptions& options) override;
  absl::Status Scatter(ConstBuffer in, Buffer out, int root,
                       const OperationOptions& options) override;
  absl::Status ReduceScatter(ConstBuffer in, Buffer out, ReduceOp op,
                             const OperationOptions& options) override;
  absl::Status AllToAll(ConstBuffer in, Buffer out, const OperationOptions& options) override;
  absl::Status AllToAllV(ConstBuffer in, absl::Span<const int64_t> in_counts, Buffer out,
                         absl::Span<const int64_t> out_counts,
                         const OperationOptions& options) override;
  absl::Status Barrier(const OperationOptions& options) override;
  absl::Status Send(ConstBuffer buffer, int peer, const OperationOptions& options) override;
  absl::Status Receive(Buffer buffer, int peer, const OperationOptions& options) override;
  absl::Status Transfer(absl::Span<const PeerTransfer> transfers,
                        const OperationOptions& options) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key,
                                                      const ConnectContext& context) override;
  absl::Status Finalize(absl::Time deadline) override;
  void Abort(const absl::Status& cause) noexcept override;
  Holdings Held() const override;

 private:
  // Runs one operation on `bytes` of buffers: refuses it when the communicator has ended, and after
  // an Abort gives everything back when it is left. ResourceExhausted when `body` gets no memory.
  absl::Status Operation(int64_t bytes, absl::FunctionRef<absl::Status()> body);
  absl::Status Enter();
  void Leave(const absl::Status& result);
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Every collective: each rank gives rank 0 bytes, rank 0 gives each rank bytes. `take` has room
  // for what this rank takes.
  absl::Status Collective(Frame call, absl::string_view give, void* take, absl::Time deadline);
  absl::Status Exchange(Frame call, absl::string_view give, void* take, absl::Time deadline);
  absl::Status AskRankZero(const Frame& call, absl::string_view give, char* take, int64_t taken,
                           absl::Time deadline);
  absl::Status ServeAsRankZero(const Frame& call, absl::string_view give, char* take,
                               absl::Time deadline);
  absl::Status CollectAndAnswer(const Frame& call, absl::string_view give, char* take,
                                absl::Time deadline, bool& answering);
  // Tells every rank that will still listen why there is no result.
  void TellAll(const absl::Status& error);
  // The status behind an error frame.
  absl::Status ReadError(int peer, const Frame& frame, absl::Time deadline);

  absl::Status MovePeerToPeer(absl::Span<const PeerTransfer> transfers, absl::Time deadline);
  absl::Status WaitForAllToClose(absl::Time deadline);
  absl::StatusOr<std::unique_ptr<Communicator>> MakeSplit(int color, int key,
                                                          const ConnectContext& context);

  int size() const { return size_; }
  // Only between Enter and Leave, when nobody closes them.
  int fd(int peer) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return links_[static_cast<size_t>(peer)].fd();
  }

  const int rank_;
  const int size_;
  const uint64_t made_in_;  // fork generation
  const std::unique_ptr<Interrupt> interrupt_;

  mutable absl::Mutex mutex_;  // never held over anything that blocks
  std::vector<Descriptor> links_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finalized_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // of the first operation that failed
};

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_REFERENCE_COMMUNICATOR_H_
