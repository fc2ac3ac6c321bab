#include "muster/core/store/key_space.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::store_internal {

const Entry* KeySpace::Find(absl::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second.entry;
}

absl::Status KeySpace::Put(absl::string_view key, absl::string_view value, Owner owner) {
  const auto found = keys_.find(key);
  const bool is_new = found == keys_.end();
  const size_t before = is_new ? 0 : key.size() + found->second.entry.value.size();
  const size_t after = bytes_ - before + key.size() + value.size();
  if (is_new && keys_.size() >= limits_.keys) {
    return absl::ResourceExhaustedError(
        absl::StrCat("key \"", key, "\": the store holds ", keys_.size(),
                     " keys, which is its limit: delete those that nobody needs any more"));
  }
  if (after > limits_.bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("key \"", key, "\": the store would hold ", after, " bytes, its limit is ",
                     limits_.bytes, ": it is for small records, and data goes through a group"));
  }
  const Owner previous = is_new ? kNobody : found->second.owner;
  if (owner != kNobody && owner != previous) {
    const auto owned = owned_.find(owner);
    if (owned != owned_.end() && owned->second.size() >= limits_.keys_per_owner) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "key \"", key, "\": this session owns ", owned->second.size(),
          " session keys, which is its limit: delete those that nobody needs any more"));
    }
  }
  Write(key, value, owner);
  return absl::OkStatus();
}

void KeySpace::PutBeyondLimits(absl::string_view key, absl::string_view value) {
  Write(key, value, kNobody);
}

void KeySpace::Write(absl::string_view key, absl::string_view value, Owner owner) {
  auto found = keys_.find(key);
  if (found == keys_.end()) {
    found = keys_.emplace(std::string(key), Key()).first;
    bytes_ += key.size();
  }
  Key& stored = found->second;
  bytes_ += value.size();
  bytes_ -= stored.entry.value.size();
  stored.entry.key = std::string(key);
  stored.entry.value = std::string(value);
  stored.entry.revision = ++revision_;
  SetOwner(stored.entry.key, &stored.owner, owner);
  changes_.push_back({WatchEvent::Kind::kPut, stored.entry});
}

void KeySpace::SetOwner(const std::string& key, Owner* current, Owner wanted) {
  if (*current == wanted) return;
  if (*current != kNobody) {
    const auto owned = owned_.find(*current);
    owned->second.erase(key);
    if (owned->second.empty()) owned_.erase(owned);
  }
  if (wanted != kNobody) owned_[wanted].insert(key);
  *current = wanted;
}

void KeySpace::EraseAt(Keys::iterator key) {
  SetOwner(key->first, &key->second.owner, kNobody);
  bytes_ -= key->first.size() + key->second.entry.value.size();
  WatchEvent gone;
  gone.kind = WatchEvent::Kind::kDelete;
  gone.entry.key = key->first;
  gone.entry.revision = ++revision_;
  changes_.push_back(std::move(gone));
  keys_.erase(key);
}

void KeySpace::Erase(absl::string_view key) {
  const auto found = keys_.find(key);
  if (found != keys_.end()) EraseAt(found);
}

void KeySpace::EraseAllOf(Owner owner) {
  const auto owned = owned_.find(owner);
  if (owned == owned_.end()) return;
  const std::set<std::string> keys = owned->second;
  for (const std::string& key : keys) Erase(key);
}

std::vector<WatchEvent> KeySpace::Snapshot(absl::string_view prefix) const {
  std::vector<WatchEvent> events;
  for (auto it = keys_.lower_bound(prefix);
       it != keys_.end() && absl::StartsWith(it->first, prefix); ++it) {
    events.push_back({WatchEvent::Kind::kPut, it->second.entry});
  }
  return events;
}

std::vector<WatchEvent> KeySpace::TakeChanges() { return std::exchange(changes_, {}); }

}  // namespace muster::store_internal
