#include "muster/core/collective/backend.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/no_destructor.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/platform/seen.h"

namespace muster {
namespace {

// Those of //backends.
constexpr absl::string_view kOwn[] = {"gloo", "reference"};

}  // namespace

struct BackendRegistry::Impl {
  struct Registration {
    std::unique_ptr<Backend> backend;
    std::vector<std::string>
        places;  // "backends/gloo/gloo_backend.cc:31"; more than one is an error
  };

  std::vector<std::string> NamesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<std::string> names;
    for (const auto& [name, registration] : backends) names.push_back(name);
    return names;
  }

  absl::Mutex mutex;
  std::map<std::string, Registration, std::less<>> backends ABSL_GUARDED_BY(mutex);
};

BackendRegistry::BackendRegistry() : impl_(std::make_unique<Impl>()) {}

BackendRegistry::~BackendRegistry() = default;

BackendRegistry& BackendRegistry::Global() {
  // Never destroyed: groups may be closed while static objects are being destroyed.
  static absl::NoDestructor<BackendRegistry> registry;
  return *registry;
}

void BackendRegistry::Register(absl::string_view name, std::unique_ptr<Backend> backend,
                               absl::string_view file, int line) {
  absl::MutexLock lock(&impl_->mutex);
  Impl::Registration& registration = impl_->backends[std::string(name)];
  registration.places.push_back(absl::StrCat(file, ":", line));
  if (registration.places.size() == 1) registration.backend = std::move(backend);
}

absl::StatusOr<Backend*> BackendRegistry::Find(absl::string_view name) const {
  absl::MutexLock lock(&impl_->mutex);
  const auto it = impl_->backends.find(name);
  if (it == impl_->backends.end()) {
    const std::vector<std::string> names = impl_->NamesLocked();
    // Only a label that exists is worth following; the name may be mistyped.
    const bool ours = std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
    return absl::NotFoundError(absl::StrCat(
        "no backend ", Seen(name), " is linked into this program, which has ",
        names.empty() ? "none" : absl::StrJoin(names, ", "), ": add ",
        ours ? absl::StrCat("@muster//backends:", name, ", or ") : "",
        "your own library that registers this name",
        ours ? "," : absl::StrCat(" (Muster itself has ", absl::StrJoin(kOwn, " and "), ")"),
        " to the deps of the binary"));
  }
  const Impl::Registration& registration = it->second;
  if (registration.places.size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend \"", name, "\" is registered at ", absl::StrJoin(registration.places, " and at "),
        ": rename one of them, or link only one into this program"));
  }
  if (registration.backend == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "backend \"", name, "\" is registered as a null pointer at ", registration.places.front()));
  }
  return registration.backend.get();
}

std::vector<std::string> BackendRegistry::Names() const {
  absl::MutexLock lock(&impl_->mutex);
  return impl_->NamesLocked();
}

}  // namespace muster
