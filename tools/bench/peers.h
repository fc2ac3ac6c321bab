// The libraries that bench compares with and does not link: found on this machine or left out.
#ifndef MUSTER_TOOLS_BENCH_PEERS_H_
#define MUSTER_TOOLS_BENCH_PEERS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/platform/environment.h"
#include "muster/tools/bench/options.h"
#include "muster/tools/bench/peer_subject.h"

namespace muster {
namespace bench {

struct Peers {
  std::vector<std::string> found;               // "torch", "openmpi"
  std::map<std::string, std::string> left_out;  // and why
};

// Looks for those that `options` name and lays their programs out in `folder`: a script for torch,
// a program that mpicc compiles. A peer that does not work is left out; an error is one of ours.
absl::StatusOr<Peers> PreparePeers(const Options& options, const Environment& environment,
                                   const PrivateFolder& folder);

// How `rank` of `ranks` starts the peer that PreparePeers laid out in `folder`. Its FIFOs are at
// `prefix`.
PeerSubject::Setup PeerSetup(absl::string_view peer, const Options& options,
                             const Environment& environment, const std::string& folder,
                             const std::string& prefix, int rank, int ranks);

}  // namespace bench
}  // namespace muster

#endif  // MUSTER_TOOLS_BENCH_PEERS_H_
