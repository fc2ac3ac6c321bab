#include "muster/tools/bench/peers.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/peer_sources.h"
#include "muster/tools/bench/peer_subject.h"
#include "muster/tools/process/child_process.h"

namespace muster {
namespace bench {
namespace {

// Of an import of torch from a cold disk, of a compilation.
constexpr absl::Duration kProbeTimeout = absl::Minutes(2);

constexpr char kTorchScript[] = "torch_peer.py";
constexpr char kMpiSource[] = "openmpi_peer.c";
constexpr char kMpiProgram[] = "openmpi_peer";

// Whether it ran and exited with 0.
bool Works(const std::vector<std::string>& command, const Environment& environment) {
  const absl::StatusOr<RankExit> exit =
      RunProcess(command, environment, MonotonicNow() + kProbeTimeout, {"/dev/null", "/dev/null"});
  return exit.ok() && exit->ok();
}

std::string NotInstalled(absl::string_view why) {
  return absl::StrCat("not installed, left out (", why, ")");
}

// Nullopt when it is there, else why it is left out.
absl::StatusOr<std::optional<std::string>> PrepareTorch(const Options& options,
                                                        const Environment& environment,
                                                        const PrivateFolder& folder) {
  if (!Works({options.python, "-c", "import torch.distributed"}, environment)) {
    return std::optional<std::string>(
        NotInstalled(absl::StrCat(options.python, " cannot import torch.distributed")));
  }
  const absl::StatusOr<std::string> script = folder.WriteFile(kTorchScript, kTorchPeer);
  if (!script.ok()) return script.status();
  return std::optional<std::string>();
}

absl::StatusOr<std::optional<std::string>> PrepareOpenMpi(const Environment& environment,
                                                          const PrivateFolder& folder) {
  for (const char* tool : {"mpicc", "mpirun"}) {
    if (!Works({tool, "--version"}, environment)) {
      return std::optional<std::string>(NotInstalled(absl::StrCat("no ", tool, " that works")));
    }
  }
  const absl::StatusOr<std::string> source = folder.WriteFile(kMpiSource, kOpenMpiPeer);
  if (!source.ok()) return source.status();
  const std::string program = absl::StrCat(folder.path(), "/", kMpiProgram);
  if (!Works({"mpicc", "-O2", "-o", program, *source}, environment)) {
    return std::optional<std::string>(NotInstalled("mpicc cannot build with OpenMPI's mpi.h"));
  }
  return std::optional<std::string>();
}

}  // namespace

absl::StatusOr<Peers> PreparePeers(const Options& options, const Environment& environment,
                                   const PrivateFolder& folder) {
  Peers peers;
  for (const std::string& peer : options.peers) {
    absl::StatusOr<std::optional<std::string>> left_out =
        peer == kTorch ? PrepareTorch(options, environment, folder)
                       : PrepareOpenMpi(environment, folder);
    if (!left_out.ok()) return left_out.status();
    if (left_out->has_value()) {
      peers.left_out[peer] = **std::move(left_out);
    } else {
      peers.found.push_back(peer);
    }
  }
  return peers;
}

PeerSubject::Setup PeerSetup(absl::string_view peer, const Options& options,
                             const Environment& environment, const std::string& folder,
                             const std::string& prefix, int rank, int ranks) {
  PeerSubject::Setup setup;
  setup.name = std::string(peer);
  setup.prefix = prefix;
  setup.rank = rank;
  Environment::Variables variables = environment.variables();
  // As torchrun sets it, and all subjects on the same interface.
  variables.insert({"OMP_NUM_THREADS", "1"});
  variables["GLOO_SOCKET_IFNAME"] = "lo";
  // Without its barrier PyTorch's gloo, like gloo, fails ranks whose peers are done before them.
  variables["TORCH_DIST_INIT_BARRIER"] = "1";
  setup.environment = Environment(std::move(variables));
  if (peer == kTorch) {
    setup.command = {options.python, absl::StrCat(folder, "/", kTorchScript), prefix,
                     absl::StrCat(rank), absl::StrCat(ranks)};
  } else if (rank == 0) {
    // Not bound to cores: no other subject is.
    setup.command = {"mpirun", "-n", absl::StrCat(ranks), "--oversubscribe", "--bind-to", "none"};
    if (geteuid() == 0) setup.command.push_back("--allow-run-as-root");
    setup.command.push_back(absl::StrCat(folder, "/", kMpiProgram));
    setup.command.push_back(prefix);
  }
  return setup;
}

}  // namespace bench
}  // namespace muster
