// What the store's server publishes about each session, under "session/<world rank>".
#ifndef MUSTER_CORE_STORE_SESSION_RECORD_H_
#define MUSTER_CORE_STORE_SESSION_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr absl::string_view kSessionKeyPrefix = "session/";

struct SessionRecord {
  enum class Liveness {
    kLive,
    kLeft,  // said goodbye
    kLost,  // declared dead by the server; it is fenced and never comes back under this incarnation
  };

  int rank = 0;              // world rank
  uint64_t incarnation = 0;  // random, chosen by the process: tells a restarted rank from the one before
  std::string host;
  int64_t pid = 0;
  Liveness liveness = Liveness::kLive;
  std::string reason;  // kLost: "killed by signal 9" (told by a launcher), "its connection closed", "no heartbeat for 10 s"

  // "rank 3 (host b, pid 812)"
  std::string Who() const;
  // "rank 3 (host b, pid 812) was lost: killed by signal 9"; "rank 3 (host b, pid 812) left"
  std::string WhatHappened() const;

  std::string Encode() const;
  static absl::StatusOr<SessionRecord> Decode(absl::string_view text);
};

// "session/3"
std::string SessionKey(int rank);

}  // namespace muster

#endif  // MUSTER_CORE_STORE_SESSION_RECORD_H_
