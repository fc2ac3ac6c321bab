// The keys of a store's server with their revisions and owners, and the journal of what changed.
// Pure.
#ifndef MUSTER_CORE_STORE_KEY_SPACE_H_
#define MUSTER_CORE_STORE_KEY_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "muster/core/store/limits.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

// Thread-compatible.
class KeySpace {
 public:
  // Who a key vanishes with; kNobody: with nobody.
  using Owner = uint64_t;
  static constexpr Owner kNobody = 0;

  // The rank whose write is a key's last one, so that what one rank leaves behind is counted as its
  // own, over all its sessions; kServer: the server's own keys.
  using Writer = int;
  static constexpr Writer kServer = -1;

  // At most so many keys one owner; of one writer and in all so many keys and bytes (of keys and
  // values).
  struct Limits {
    size_t keys_per_owner = kSessionKeysPerSession;
    size_t keys_per_writer = kKeysPerRank;
    size_t bytes_per_writer = kKeyBytesPerRank;
    size_t keys = kMaxKeys;
    size_t bytes = kMaxBytes;
  };

  explicit KeySpace(const Limits& limits) : limits_(limits) {}

  // Null when there is no such key. Valid until the next change.
  const Entry* Find(absl::string_view key) const;

  // ResourceExhausted with the limit, and nothing changed.
  absl::Status Put(absl::string_view key, absl::string_view value, Owner owner, Writer writer);
  // For the server's own keys, of which there is a bounded number.
  void PutBeyondLimits(absl::string_view key, absl::string_view value);

  void Erase(absl::string_view key);
  void EraseAllOf(Owner owner);

  std::vector<WatchEvent> Snapshot(absl::string_view prefix) const;

  // What changed since the last call, in order.
  std::vector<WatchEvent> TakeChanges();

  // The next revision, which no key gets.
  Revision Advance() { return ++revision_; }
  Revision revision() const { return revision_; }
  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    Entry entry;
    Owner owner = kNobody;
    Writer writer = kServer;

    size_t bytes() const { return entry.key.size() + entry.value.size(); }
  };
  struct Share {
    size_t keys = 0;
    size_t bytes = 0;
  };
  using Keys = std::map<std::string, Key, std::less<>>;

  absl::Status CheckLimits(absl::string_view key, absl::string_view value, Owner owner,
                           Writer writer) const;
  void Write(absl::string_view key, absl::string_view value, Owner owner, Writer writer);
  void EraseAt(Keys::iterator key);
  // Puts a key as it stands into the shares, or takes it out.
  void Count(const Key& key);
  void Uncount(const Key& key);
  void SetOwner(const std::string& key, Owner* current, Owner wanted);

  const Limits limits_;
  Revision revision_ = 0;
  Keys keys_;
  size_t bytes_ = 0;
  std::map<Owner, std::set<std::string>> owned_;
  std::map<Writer, Share> written_;  // one a rank at most
  std::vector<WatchEvent> changes_;
};

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_KEY_SPACE_H_
