// A rank that does one thing wrong, named by its only argument: for tests of what becomes of the
// job. It prints what it was told and exits with 1 for an error that it got.
//
//   muster run -n 2 -- faulty_rank use_after_close
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/log/initialize.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/collective/reduce_op.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/group/group_spec.h"
#include "muster/core/platform/environment.h"
#include "muster/core/rendezvous/world.h"
#include "muster/trainer/logistic_module.h"
#include "muster/trainer/progress.h"
#include "muster/trainer/trainer.h"

namespace muster {
namespace {

int Tell(int rank, const absl::Status& status) {
  std::cerr << "faulty_rank, rank " << rank << ": "
            << (status.ok() ? "OK" : std::string(status.message())) << std::endl;
  return status.ok() ? 0 : 1;
}

// A pool with one group that has worked.
struct Job {
  std::unique_ptr<GroupPool> pool;
  GroupLease lease;
  float value = 1;
};

absl::StatusOr<Job> Join() {
  Job job;
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::FromEnvironment();
  if (!pool.ok()) return pool.status();
  job.pool = *std::move(pool);
  absl::StatusOr<GroupLease> lease = job.pool->Acquire(GroupSpec());
  if (!lease.ok()) return lease.status();
  job.lease = *std::move(lease);
  absl::Status status = job.lease->AllReduce(Buffer::Of(job.value), ReduceOp::kSum);
  if (!status.ok()) return status;
  return job;
}

int UseAfterClose(int rank) {
  absl::StatusOr<Job> job = Join();
  if (!job.ok()) return Tell(rank, job.status());
  absl::Status closed = job->lease.Close();
  if (!closed.ok()) return Tell(rank, closed);
  return Tell(rank, job->lease->AllReduce(Buffer::Of(job->value), ReduceOp::kSum));
}

int CloseTwice(int rank) {
  absl::StatusOr<Job> job = Join();
  if (!job.ok()) return Tell(rank, job.status());
  for (int i = 0; i < 2; ++i) {
    if (const int code = Tell(rank, job->lease.Close()); code != 0) return code;
  }
  for (int i = 0; i < 2; ++i) {
    if (const int code = Tell(rank, job->pool->Close(absl::Seconds(5))); code != 0) return code;
  }
  return Tell(rank, job->pool->Acquire(GroupSpec()).status());
}

int AcquireInChild(int rank) {
  absl::StatusOr<Job> job = Join();
  if (!job.ok()) return Tell(rank, job.status());
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    // The group that is there, and one that is not.
    GroupSpec other;
    other.name = "other";
    Tell(rank, job->lease->AllReduce(Buffer::Of(job->value), ReduceOp::kSum));
    Tell(rank, job->pool->Acquire(GroupSpec()).status());
    std::exit(Tell(rank, job->pool->Acquire(other).status()));  // with its exit hooks
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 3;
  // The child's mistake is not the parent's: its group works and ends clean.
  absl::Status works = job->lease->AllReduce(Buffer::Of(job->value), ReduceOp::kSum);
  if (works.ok()) works = job->lease.Close();
  std::cerr << "faulty_rank, rank " << rank << ", parent: " << works << std::endl;
  return works.ok() ? WEXITSTATUS(status) : 4;
}

// What a user's code may do in the middle of training.
class BrokenData final : public PlaneData {
 public:
  static constexpr int64_t kWidth = 4;

  // `fail` is called at a read.
  explicit BrokenData(std::function<void()> fail) : PlaneData(64, kWidth), fail_(std::move(fail)) {}
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) override {
    constexpr int kGoodReads = 50;
    if (fail_ && ++reads_ > kGoodReads) fail_();
    return PlaneData::Read(indices, batch);
  }

 private:
  const std::function<void()> fail_;
  int reads_ = 0;
};

// Until rank 1 fails.
int Train(int rank, const std::function<void()>& fail) {
  TrainerOptions options;
  options.max_epochs = 1000000;
  options.batch_size = 4;
  options.progress = ProgressOutput::OfFile(stdout);
  BrokenData data(rank == 1 ? fail : nullptr);
  LogisticModule module(BrokenData::kWidth);
  Trainer trainer(options);
  return Tell(rank, trainer.Fit(module, data));
}

int ThrowUncaught(int rank) {
  return Train(rank, [] { throw std::runtime_error("the disk is on fire"); });
}

int Throw(int rank) {
  try {
    return ThrowUncaught(rank);
  } catch (const std::exception& exception) {
    return Tell(rank, absl::InternalError(exception.what()));
  }
}

int Exit(int rank) {
  return Train(rank, [] {
    std::cerr << "enough of it" << std::endl;
    std::exit(7);
  });
}

// Without a word, and as if all were well.
int Vanish(int rank) {
  return Train(rank, [] {
    std::cerr << "enough of it" << std::endl;
    // As _exit(0), which a sanitizer's runtime would turn into its own code and complaint.
    syscall(SYS_exit_group, 0);
  });
}

int Main(int argc, char** argv) {
  absl::InitializeLog();
  const std::map<std::string, std::function<int(int)>> mistakes = {
      {"use_after_close", UseAfterClose},
      {"close_twice", CloseTwice},
      {"acquire_in_child", AcquireInChild},
      {"throw", Throw},
      {"throw_uncaught", ThrowUncaught},
      {"exit", Exit},
      {"vanish", Vanish},
  };
  const auto mistake = mistakes.find(argc == 2 ? argv[1] : "");
  if (mistake == mistakes.end()) return 64;
  const absl::StatusOr<World> world = WorldFromEnvironment(Environment::OfProcess());
  if (!world.ok()) return Tell(-1, world.status());
  return mistake->second(world->rank);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::Main(argc, argv); }
