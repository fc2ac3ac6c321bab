// What a caller asks for.
#ifndef MUSTER_CORE_GROUP_GROUP_SPEC_H_
#define MUSTER_CORE_GROUP_GROUP_SPEC_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/core/collective/device.h"

namespace muster {

// A value type. Identity (what must be equal for a live group to be reused, and on all ranks) is
// name, members, device type, backend and its options; timeouts are not: they belong to the lease.
struct GroupSpec {
  std::string name = "default";  // 1 to 64 of [A-Za-z0-9_.-]
  Device device = Device::Cpu();
  // "auto" resolves once, when the group is made, to the first that every rank offers: nccl on a
  // GPU, gloo and then reference on the CPU; then the others that are linked in, by name.
  std::string backend = "auto";
  std::map<std::string, std::string> backend_options;
  // Which ranks of the job: members[r] is rank r of the group, all different. Empty: all, in their
  // order. Only members may acquire it. Groups of one name without a rank in common are two.
  std::vector<int> members;

  absl::Duration setup_timeout = absl::Seconds(30);
  absl::Duration operation_timeout = absl::Minutes(10);
  absl::Duration close_timeout = absl::Seconds(5);
  // How long a failed call waits for the cause behind a transport error before it reports that
  // error itself.
  absl::Duration cause_window = absl::Milliseconds(200);

  // InvalidArgument naming the field, its value and what is accepted.
  absl::Status Validate() const;

  // Field to value, as messages name them: what must be equal on all ranks, and for a live group to
  // be reused.
  std::map<std::string, std::string> Identity() const;

  // "" when the two have one identity, else what differs: "backend is 'gloo' there and 'reference'
  // is wanted".
  std::string DifferenceFrom(const GroupSpec& live) const;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_GROUP_SPEC_H_
