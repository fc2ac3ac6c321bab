// What a store's client and its server say to each other, whatever carries it.
#ifndef MUSTER_CORE_STORE_MESSAGES_H_
#define MUSTER_CORE_STORE_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

struct Request {
  enum class Type : uint8_t {
    kGet = 1,
    kSet = 2,
    kCompareAndSet = 3,
    kDelete = 4,
    kWatch = 5,    // answered by watch batches under the request's id
    kUnwatch = 6,  // id: the watch's; not answered
    kGather = 7,
    kWithdraw = 8,  // not answered
    kLeave = 9,
    kHeartbeat = 10,
  };
  Type type = Type::kHeartbeat;
  uint64_t id = 0;    // chosen by the client, unique within its session
  std::string key;    // kWatch: the prefix
  std::string value;  // kWithdraw, kLeave: the reason
  Revision expected = 0;
  Lifetime lifetime = Lifetime::kPersistent;
  int32_t rank = 0;
  int32_t size = 0;
  absl::Duration timeout = absl::InfiniteDuration();  // kGather: from when the server gets it
  std::vector<int32_t> members;                       // kGather, as Gathering has it
  std::string waits_in;                               // kGather
};

struct Response {
  enum class Kind : uint8_t {
    kAnswer = 1,      // the only one to its request
    kWatchBatch = 2,  // an error is the last one of its watch
  };
  Kind kind = Kind::kAnswer;
  uint64_t id = 0;
  absl::Status status;  // the rest has a meaning only when it is OK
  bool swapped = false;
  Revision revision = 0;
  Entry entry;
  std::vector<std::string> values;
  std::vector<WatchEvent> events;
};

// InvalidArgument naming the size and the limit. The client asks before it sends, the server does
// not trust it.
absl::Status CheckKey(absl::string_view key);
absl::Status CheckValue(absl::string_view value);
absl::Status CheckPrefix(absl::string_view prefix);
absl::Status CheckMembers(size_t members);
// All that is checked of a kGather of the session of `rank`.
absl::Status CheckGather(const Request& request, int rank, int world_size);

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_MESSAGES_H_
