#include "muster/core/store/key_space.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster::store_internal {

const Entry* KeySpace::Find(absl::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &found->second.entry;
}

absl::Status KeySpace::CheckLimits(absl::string_view key, absl::string_view value, Owner owner,
                                   Writer writer) const {
  const auto found = keys_.find(key);
  const Key* const before = found == keys_.end() ? nullptr : &found->second;
  const size_t grows = key.size() + value.size();
  const bool own = before != nullptr && before->writer == writer;
  const auto share = written_.find(writer);
  const Share written = share == written_.end() ? Share() : share->second;
  std::string what;
  if (!own && written.keys >= limits_.keys_per_writer) {
    what = absl::StrCat("rank ", writer, " has written ", written.keys,
                        " keys of the store, which is its limit: delete those that nobody needs "
                        "any more");
  } else if (const size_t of_writer = written.bytes - (own ? before->bytes() : 0) + grows;
             of_writer > limits_.bytes_per_writer) {
    what = absl::StrCat("rank ", writer, " would have written ", of_writer,
                        " bytes of the store, its limit is ", limits_.bytes_per_writer,
                        ": it is for small records, and data goes through a group");
  } else if (before == nullptr && keys_.size() >= limits_.keys) {
    what = absl::StrCat("the store holds ", keys_.size(),
                        " keys, which is its limit: delete those that nobody needs any more");
  } else if (const size_t of_all = bytes_ - (before == nullptr ? 0 : before->bytes()) + grows;
             of_all > limits_.bytes) {
    what = absl::StrCat("the store would hold ", of_all, " bytes, its limit is ", limits_.bytes,
                        ": it is for small records, and data goes through a group");
  } else if (owner != kNobody && (before == nullptr || owner != before->owner)) {
    const auto owned = owned_.find(owner);
    if (owned == owned_.end() || owned->second.size() < limits_.keys_per_owner) {
      return absl::OkStatus();
    }
    what = absl::StrCat("this session owns ", owned->second.size(),
                        " session keys, which is its limit: delete those that nobody needs any "
                        "more");
  } else {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("key \"", key, "\": ", what));
}

absl::Status KeySpace::Put(absl::string_view key, absl::string_view value, Owner owner,
                           Writer writer) {
  absl::Status within = CheckLimits(key, value, owner, writer);
  if (within.ok()) Write(key, value, owner, writer);
  return within;
}

void KeySpace::PutBeyondLimits(absl::string_view key, absl::string_view value) {
  Write(key, value, kNobody, kServer);
}

void KeySpace::Write(absl::string_view key, absl::string_view value, Owner owner, Writer writer) {
  auto found = keys_.find(key);
  if (found == keys_.end()) {
    found = keys_.emplace(std::string(key), Key()).first;
  } else {
    Uncount(found->second);
  }
  Key& stored = found->second;
  stored.entry.key = std::string(key);
  stored.entry.value = std::string(value);
  stored.entry.revision = ++revision_;
  stored.writer = writer;
  SetOwner(stored.entry.key, &stored.owner, owner);
  Count(stored);
  changes_.push_back({WatchEvent::Kind::kPut, stored.entry});
}

void KeySpace::Count(const Key& key) {
  bytes_ += key.bytes();
  Share& share = written_[key.writer];
  ++share.keys;
  share.bytes += key.bytes();
}

void KeySpace::Uncount(const Key& key) {
  bytes_ -= key.bytes();
  Share& share = written_[key.writer];
  --share.keys;
  share.bytes -= key.bytes();
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
  Uncount(key->second);
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
