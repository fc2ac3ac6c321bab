#include "muster/core/group/introduce.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {
namespace {

std::vector<std::string> PreferredBackends(Device device) {
  if (device.type == Device::Type::kCuda) return {"nccl"};
  return {"gloo", "reference"};
}

absl::Status CheckBackend(const BackendRegistry& backends, const GroupSpec& spec) {
  if (spec.backend == "auto") return absl::OkStatus();
  absl::StatusOr<Backend*> backend = backends.Find(spec.backend);
  if (!backend.ok()) return backend.status();
  return (*backend)->Check(spec.device, spec.backend_options);
}

}  // namespace

std::vector<std::string> BackendOffers(const BackendRegistry& backends, const GroupSpec& spec) {
  std::vector<std::string> candidates = PreferredBackends(spec.device);
  for (const std::string& name : backends.Names()) {
    if (std::find(candidates.begin(), candidates.end(), name) == candidates.end()) {
      candidates.push_back(name);
    }
  }
  std::vector<std::string> offers;
  for (const std::string& name : candidates) {
    absl::StatusOr<Backend*> backend = backends.Find(name);
    if (backend.ok() && (*backend)->Check(spec.device, spec.backend_options).ok()) {
      offers.push_back(name);
    }
  }
  return offers;
}

Introduction Introduce(Introduction self, const GroupSpec& spec, const BackendRegistry& backends,
                       const LivePools& pools) {
  self.identity = spec.Identity();
  self.offers = BackendOffers(backends, spec);
  if (self.refusal.ok()) self.refusal = CheckBackend(backends, spec);
  if (self.refusal.ok()) self.refusal = pools.CheckFree(spec.device.ToString());
  return self;
}

}  // namespace muster
