// Hosts on a network that can be cut, without leave and without a trace on this machine: network
// namespaces, each with a veth pair to a bridge in one more. A cut takes a host's end off the
// bridge, so links stay up and packets vanish, as behind a switch that failed.
//
//   // In a process that `InNetworkOfItsOwn(command)` started, before it has threads:
//   absl::StatusOr<std::unique_ptr<CutNetwork>> network = CutNetwork::Create(2);
//   ... serve at (*network)->AddressOf(0); this process is host 0 ...
//   variables = (*network)->VariablesOf(1);      // of a rank that EnterNetworkOfRank()s host 1
//   (*network)->Cut(1);
#ifndef MUSTER_TESTING_CONTRACT_CUT_NETWORK_H_
#define MUSTER_TESTING_CONTRACT_CUT_NETWORK_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/core/launch/unique_fd.h"

namespace muster::testing {

// `command`, started in user and network namespaces of its own, of which it is root.
std::vector<std::string> InNetworkOfItsOwn(const std::vector<std::string>& command);

// OK where this machine lets a process make such a network; else why not.
absl::Status NetworksCanBeMade();

class CutNetwork {
 public:
  // Unavailable with the words of ip(8) where the system does not do it. The process is host 0
  // afterwards. Not thread-safe.
  static absl::StatusOr<std::unique_ptr<CutNetwork>> Create(int hosts);

  static std::string AddressOf(int host);
  // For the environment of a process that calls EnterNetworkOfRank.
  std::map<std::string, std::string> VariablesOf(int host) const;

  // No packet comes to the host or leaves it, until Heal.
  absl::Status Cut(int host);
  absl::Status Heal(int host);
  // The hosts but 0 reach host 0 and not each other.
  absl::Status Part();

 private:
  CutNetwork() = default;
  // Runs ip's commands in a namespace.
  absl::Status Ip(const UniqueFd& where, const std::string& commands) const;

  std::vector<UniqueFd> hosts_;
  UniqueFd bridge_;
};

// Enters the host that VariablesOf named, if any. To be called before there are threads.
absl::Status EnterNetworkOfRank();

}  // namespace muster::testing

#endif  // MUSTER_TESTING_CONTRACT_CUT_NETWORK_H_
