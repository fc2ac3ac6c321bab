// What the store's server publishes about each session, under "session/<world rank>".
#ifndef MUSTER_CORE_STORE_SESSION_RECORD_H_
#define MUSTER_CORE_STORE_SESSION_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr absl::string_view kSessionKeyPrefix = "session/";

// Who opens a session.
struct SessionInfo {
  int rank = 0;        // world rank
  int world_size = 1;  // as this process was told: the server refuses another one than its own
  std::string host;
  int64_t pid = 0;
  uint64_t incarnation =
      0;  // random, chosen by the process: tells a restarted rank from the one before
};

struct SessionRecord {
  enum class Liveness {
    kLive,
    kLeft,  // said goodbye
    kLost,  // declared dead by the server; it is fenced and never comes back under this incarnation
  };

  int rank = 0;  // world rank
  uint64_t incarnation =
      0;  // random, chosen by the process: tells a restarted rank from the one before
  std::string host;
  int64_t pid = 0;
  Liveness liveness = Liveness::kLive;
  // kLost: "killed by signal 9" (told by a launcher), "its connection closed", "no heartbeat for
  // 10s". kLeft: what it said when it left, perhaps nothing.
  std::string reason;

  // "rank 3 (host b, pid 812)"; "rank 3" when a launcher declared it lost before it ever connected
  std::string Who() const;
  // "rank 3 (host b, pid 812) was lost: killed by signal 9"; "rank 3 (host b, pid 812) left", with
  // ": " and the reason where it gave one; "rank 3 (host b, pid 812) is live"
  std::string WhatHappened() const;

  // One line of text. Decode survives anything (InvalidArgument) and gives back what Encode was
  // given.
  std::string Encode() const;
  static absl::StatusOr<SessionRecord> Decode(absl::string_view text);
};

// "session/3"
std::string SessionKey(int rank);

}  // namespace muster

#endif  // MUSTER_CORE_STORE_SESSION_RECORD_H_
