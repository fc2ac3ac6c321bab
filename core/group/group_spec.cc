#include "muster/core/group/group_spec.h"

#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "muster/core/platform/seen.h"

namespace muster {
namespace {

constexpr size_t kMaxNameLength = 64;
constexpr size_t kMaxBackendLength = 256;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

absl::Status CheckTimeout(absl::string_view field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("GroupSpec.", field, " is ",
                                                 absl::FormatDuration(value),
                                                 ": it must be more than zero (infinite is fine)"));
}

}  // namespace

absl::Status GroupSpec::Validate() const {
  bool good = !name.empty() && name.size() <= kMaxNameLength;
  for (char c : name) good = good && IsNameCharacter(c);
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat("GroupSpec.name is ", Seen(name),
                                                   ": it must be 1 to ", kMaxNameLength,
                                                   " letters, digits, '_', '.' or '-'"));
  }
  if (backend.empty()) {
    return absl::InvalidArgumentError("GroupSpec.backend is empty: name a backend, or 'auto'");
  }
  if (backend.size() > kMaxBackendLength) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GroupSpec.backend is ", Seen(backend), ": it must be the name of a backend, or 'auto'"));
  }
  if (device.type != Device::Type::kCpu && device.type != Device::Type::kCuda) {
    return absl::InvalidArgumentError(absl::StrCat("GroupSpec.device has the type ",
                                                   static_cast<int>(device.type),
                                                   ", which is no Device::Type"));
  }
  if (device.type == Device::Type::kCpu && device.index != 0) {
    return absl::InvalidArgumentError(absl::StrCat("GroupSpec.device is cpu with the index ",
                                                   device.index,
                                                   ": there is one CPU device, with index 0"));
  }
  if (device.index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("GroupSpec.device is ", device.ToString(), ": its index must be 0 or more"));
  }
  std::set<int> different;
  for (const int member : members) {
    if (member < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("GroupSpec.members has rank ", member, ": ranks are 0 or more"));
    }
    if (!different.insert(member).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("GroupSpec.members has rank ", member, " twice: name each rank once"));
    }
  }
  for (const auto& [field, value] :
       {std::pair<const char*, absl::Duration>{"setup_timeout", setup_timeout},
        {"operation_timeout", operation_timeout},
        {"close_timeout", close_timeout}}) {
    if (absl::Status status = CheckTimeout(field, value); !status.ok()) return status;
  }
  if (cause_window < absl::ZeroDuration() || cause_window == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("GroupSpec.cause_window is ",
                                                   absl::FormatDuration(cause_window),
                                                   ": it must be zero or more, and finite"));
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> GroupSpec::Identity() const {
  std::map<std::string, std::string> identity = {
      {"device", device.type == Device::Type::kCpu ? "cpu" : "cuda"},
      {"backend", backend},
      {"members", members.empty() ? "all" : absl::StrJoin(members, ", ")}};
  for (const auto& [option, value] : backend_options) {
    identity[absl::StrCat("backend_options['", option, "']")] = value;
  }
  return identity;
}

std::string GroupSpec::DifferenceFrom(const GroupSpec& live) const {
  const std::map<std::string, std::string> ours = Identity();
  const std::map<std::string, std::string> theirs = live.Identity();
  const auto value = [](const std::map<std::string, std::string>& identity,
                        const std::string& field) {
    auto it = identity.find(field);
    return it == identity.end() ? std::string("not set") : absl::StrCat("'", it->second, "'");
  };
  std::map<std::string, std::string> fields = ours;
  fields.insert(theirs.begin(), theirs.end());
  std::vector<std::string> differences;
  for (const auto& [field, unused] : fields) {
    if (value(ours, field) == value(theirs, field)) continue;
    differences.push_back(absl::StrCat(field, " is ", value(theirs, field), " there and ",
                                       value(ours, field), " is wanted"));
  }
  return absl::StrJoin(differences, "; ");
}

}  // namespace muster
