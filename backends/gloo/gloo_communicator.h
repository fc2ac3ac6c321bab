// The communicator of the backend "gloo"; see gloo_backend.h.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_COMMUNICATOR_H_
#define MUSTER_BACKENDS_GLOO_GLOO_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/backends/gloo/gloo_mesh.h"
#include "muster/backends/gloo/gloo_options.h"
#include "muster/core/collective/communicator.h"

namespace muster {

class GlooCommunicator : public Communicator {
 public:
  // `mesh` is null when this is the only rank.
  GlooCommunicator(int rank, int size, const GlooOptions& options, std::unique_ptr<GlooMesh> mesh);
  ~GlooCommunicator() override;

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
  absl::Status Finalize(absl::Time deadline) override;
  void Abort(const absl::Status& cause) noexcept override;
  Holdings Held() const override;

 private:
  // Runs one operation on buffers of so many bytes: `alone` when this is the only rank, else
  // `body`, whose exceptions become a status. Refuses it when the communicator has ended.
  absl::Status Operation(absl::Time deadline, int64_t bytes, absl::FunctionRef<void()> alone,
                         absl::FunctionRef<void(GlooMesh&)> body);
  absl::Status Enter();
  absl::Status Leave(absl::Status result);
  // Ends one use of the mesh. The last one after the end gives it back, on its own thread.
  void EndUse();

  void AllReduceOn(GlooMesh& mesh, uint32_t tag, const ConstBuffer& in, const Buffer& out,
                   ReduceOp op);
  void AllToAllOn(GlooMesh& mesh, const ConstBuffer& in, absl::Span<const int64_t> in_counts,
                  const Buffer& out, absl::Span<const int64_t> out_counts);

  const int rank_;
  const int size_;
  const GlooOptions options_;
  const uint64_t made_in_;  // fork generation

  mutable absl::Mutex mutex_;  // never held over anything that blocks
  std::unique_ptr<GlooMesh> mesh_ ABSL_GUARDED_BY(mutex_);
  int uses_ ABSL_GUARDED_BY(mutex_) = 0;  // of mesh_ without the mutex: an operation, an Abort
  Holdings held_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool finalized_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);    // of the abort
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // of the first operation that failed
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_COMMUNICATOR_H_
