// What one rank does for a part of a suite: the subjects, and what keeps the ranks in step.
#ifndef MUSTER_TOOLS_BENCH_RANK_BENCH_H_
#define MUSTER_TOOLS_BENCH_RANK_BENCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gloo/rendezvous/store.h"
#include "muster/core/group/group_lease.h"
#include "muster/core/group/group_pool.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/environment.h"
#include "muster/core/rendezvous/world.h"
#include "muster/core/store/tcp_store.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/samples.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {

// What the process that started the ranks tells them, beside the command line.
struct RankTask {
  std::string folder;                 // of this run, the peers' programs in it
  std::string job_folder;             // of these ranks alone, empty but for the peers' FIFOs
  std::vector<std::string> subjects;  // "muster/gloo", "gloo", "gloo/prompt", "torch", ...
  Options options;
};

class RankBench {
 public:
  // Collective. All that the subjects need, up to processes that are ready.
  static absl::StatusOr<std::unique_ptr<RankBench>> Create(const World& world,
                                                           const Environment& environment,
                                                           const RankTask& task);

  // Collective, each. The samples of rank 0: of each turn the time of the slowest rank.
  absl::StatusOr<std::vector<Sample>> CreateDestroy();
  absl::StatusOr<std::vector<Sample>> Collective();

  // The first subject is killed on the last rank, in the middle of a sum: this does not return
  // there. It leaves SIGKILL's time in the job's folder, each survivor the time of its error.
  absl::Status Detection();

  // Collective. The end in good order; the destructor's is not.
  absl::Status Close();

 private:
  using Turn = absl::FunctionRef<absl::StatusOr<absl::Duration>(Subject&)>;

  RankBench(const World& world, const RankTask& task) : world_(world), task_(task) {}
  absl::Status AddSubjects(const Environment& environment);
  absl::StatusOr<std::shared_ptr<::gloo::rendezvous::Store>> ConnectGlooStore();
  absl::Status Rounds(const std::string& case_name, Turn turn, std::vector<Sample>* samples);

  const World world_;
  const RankTask task_;
  std::unique_ptr<GroupPool> pool_;
  GroupLease sync_;  // for barriers and maxima between the turns
  // Raw gloo's store: a server on rank 0 and a client here. The job's own takes one session a rank.
  std::unique_ptr<LaunchedStore> gloo_server_;
  std::unique_ptr<ControlThread> control_;
  std::unique_ptr<TcpStore> gloo_client_;
  std::vector<std::unique_ptr<Subject>> subjects_;
};

// Names of the files in a job's folder.
inline constexpr char kSamplesFile[] = "samples";
std::string KilledFile(const std::string& job_folder);
std::string SurvivorFile(const std::string& job_folder, int rank);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_RANK_BENCH_H_
