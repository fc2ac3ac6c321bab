#include "muster/core/group/introduce.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {
namespace {

std::vector<std::string> PreferredBackends(Device device) {
  if (device.type == Device::Type::kCuda) return {"nccl"};
  return {"gloo", "reference"};
}

absl::Status CheckNamed(const BackendRegistry& backends, const GroupSpec& spec,
                        const std::string& name) {
  absl::StatusOr<Backend*> backend = backends.Find(name);
  if (!backend.ok()) return backend.status();
  return (*backend)->Check(spec.device, spec.backend_options);
}

// Why "auto" has nothing to choose from here.
absl::Status NothingToOffer(const BackendRegistry& backends, const GroupSpec& spec) {
  std::vector<std::string> reasons;
  for (const std::string& name : backends.Names()) {
    reasons.emplace_back(CheckNamed(backends, spec, name).message());
  }
  if (reasons.empty()) {
    return absl::NotFoundError(
        "no backend is linked into this program: add @muster//backends:gloo, or your own library "
        "that registers one, to the deps of the binary");
  }
  return absl::FailedPreconditionError(absl::StrCat("no backend of this program serves group '",
                                                    spec.name, "' on ", spec.device.ToString(),
                                                    ": ", absl::StrJoin(reasons, "; ")));
}

absl::Status CheckBackend(const BackendRegistry& backends, const GroupSpec& spec,
                          const std::vector<std::string>& offers) {
  if (spec.backend != "auto") return CheckNamed(backends, spec, spec.backend);
  return offers.empty() ? NothingToOffer(backends, spec) : absl::OkStatus();
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
    if (CheckNamed(backends, spec, name).ok()) offers.push_back(name);
  }
  return offers;
}

Introduction Introduce(Introduction self, const GroupSpec& spec, const BackendRegistry& backends,
                       const LivePools& pools) {
  self.identity = spec.Identity();
  self.offers = BackendOffers(backends, spec);
  if (self.refusal.ok()) self.refusal = CheckBackend(backends, spec, self.offers);
  if (self.refusal.ok()) self.refusal = pools.CheckFree(spec.device.ToString());
  return self;
}

}  // namespace muster
