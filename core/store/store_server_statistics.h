// What came to a store's server, counted: what was let in and, in detail, what was not.
#ifndef MUSTER_CORE_STORE_STORE_SERVER_STATISTICS_H_
#define MUSTER_CORE_STORE_STORE_SERVER_STATISTICS_H_

#include <cstdint>
#include <string>

namespace muster {

// Since the server started. Each connection that is over is counted under what ended it, once.
struct StoreServerStatistics {
  int64_t connections = 0;  // accepted
  int64_t sessions = 0;     // opened

  // Of all sessions, heartbeats among them; bytes are those of messages, without what frames add.
  int64_t requests = 0;
  int64_t responses = 0;  // answers and news
  int64_t bytes_received = 0;
  int64_t bytes_sent = 0;

  // Strangers, which never had a session:
  int64_t other_user = 0;   // of another user, at a unix socket
  int64_t no_greeting = 0;  // said something else than ours: a scanner, a browser, another version
  int64_t wrong_token = 0;  // did not know the job's token, or said that the store does not
  int64_t too_slow = 0;     // did not introduce themselves in time
  int64_t crowded_out = 0;  // were ended for others, at the limit on their number
  int64_t gone = 0;         // went again by themselves, as a port scanner does, or a rank that died
  int64_t not_let_in = 0;   // knew the token and got no session: a second process of a rank, ...

  // Sessions that ended because of what came over their connection:
  int64_t tampered = 0;     // a frame whose seal was not right (frame_seal.h), at either end
  int64_t malformed = 0;    // a frame that is none of ours, or too long a one
  int64_t not_reading = 0;  // more waited for it than may

  // Connections of sessions that had ended before, ended for others: of processes that were stopped
  // and declared lost, for instance.
  int64_t outlived = 0;

  // Requests that got an error because of a limit.
  int64_t over_limit = 0;

  // For a person who should know that something else than the job's ranks was there, or that they
  // met a limit: "2 connections that did not know the job's token, 1 that said something else".
  // Empty when there is nothing to say; `gone`, `not_let_in` and `outlived` alone are not.
  std::string Refused() const;
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_STORE_SERVER_STATISTICS_H_
