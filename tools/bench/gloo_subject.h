// Raw gloo, as its own examples use it: a device, a full mesh over a rendezvous store, and the end
// of both. The measure of what a group costs without a lifecycle.
#ifndef MUSTER_TOOLS_BENCH_GLOO_SUBJECT_H_
#define MUSTER_TOOLS_BENCH_GLOO_SUBJECT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/context.h"
#include "gloo/rendezvous/store.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/store.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {

class GlooSubject final : public Subject {
 public:
  // `prompt`: gloo's event loop is woken by whoever waits for it, as in Muster's groups.
  GlooSubject(const std::string& name, int rank, int size,
              std::shared_ptr<::gloo::rendezvous::Store> store, bool prompt);

  const std::string& name() const override { return name_; }
  absl::StatusOr<absl::Duration> CreateAndDestroy() override;
  absl::Status Open() override;
  absl::Status Close() override;
  absl::StatusOr<absl::Duration> AllReduce(int64_t count, int iterations) override;

 private:
  absl::StatusOr<std::shared_ptr<::gloo::Context>> Connect();

  const std::string name_;
  const int rank_;
  const int size_;
  const std::shared_ptr<::gloo::rendezvous::Store> store_;
  const bool prompt_;
  int64_t generation_ = 0;  // each has keys of its own
  std::shared_ptr<::gloo::Context> context_;
};

// gloo's rendezvous over a store like that of Muster's groups, so that neither side wins by its
// store. Both outlive it. Throws what gloo's own stores do.
std::shared_ptr<::gloo::rendezvous::Store> GlooStoreOver(Store* store, const Executor* executor);

// gloo's own FileStore. `folder` is there, empty, and the same on all ranks.
absl::StatusOr<std::shared_ptr<::gloo::rendezvous::Store>> GlooFileStore(const std::string& folder);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_GLOO_SUBJECT_H_
