// What the store takes from whoever talks to it: each bound once, with its reason.
//
// A stranger, who has not shown yet that it knows the job's token, gets next to nothing. A session
// is one of the job's own and may do a lot, but not so much that a mistake of one rank ends the
// others. What goes beyond a limit gets an error with the limit, what was seen and what to do, or
// loses its own connection; both are counted (StoreServerStatistics). The sizes of keys and values
// are a part of the interface: store.h.
#ifndef MUSTER_CORE_STORE_LIMITS_H_
#define MUSTER_CORE_STORE_LIMITS_H_

#include <cstddef>

#include "absl/time/time.h"
#include "muster/core/store/store.h"

namespace muster::store_internal {

// --- Strangers

// At once; one more ends another (TcpServerCore). As many ranks as a large host starts at one
// moment; each costs a descriptor and some 10 KiB.
inline constexpr size_t kMaxStrangers = 1024;
// How long one of them may say nothing before it is the first to be ended for another: the way of a
// rank's first word.
inline constexpr absl::Duration kFirstWord = absl::Milliseconds(100);
// From the connection to the last word of the greeting, however slowly it comes. Four short frames:
// a machine that needs longer is stuck, and its rank tries again.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);
// Of a frame before the session is open: an Open with a host name of 1 KiB has room.
inline constexpr size_t kMaxHandshakeBytes = 8192;
// Accepted before others get their turn: a flood of connections does not stop the heartbeats.
inline constexpr int kAcceptsAtOnce = 64;

// --- A session's connection

// Connections of sessions, live ones and those that ended and are still connected (a stopped
// process that was declared lost): two for each rank, and some. One more ends the oldest of those
// whose session has ended.
inline constexpr size_t kConnectionsPerRank = 2;
inline constexpr size_t kMoreConnections = 16;
// Of a frame from a client: the longest key and value, the most members of a gather and what one
// waits in, and the fields around them.
inline constexpr size_t kMaxRequestBytes = Store::kMaxKeyBytes + Store::kMaxValueBytes +
                                           Store::kMaxMembers * 4 + Store::kMaxWaitsInBytes + 256;
// Of a frame from the server, which the client trusts more: a snapshot of a full store.
inline constexpr size_t kMaxResponseBytes = size_t{512} << 20;
// What may wait for a client that does not read before its connection ends: more than one snapshot
// of a full store, so that two watches that begin together are no reason.
inline constexpr size_t kMaxQueuedForClient = size_t{640} << 20;
// For all clients together, the answer to a gather once: beyond it the connection ends for which
// the most waits.
inline constexpr size_t kMaxQueued = size_t{1} << 30;
// What may wait in a client for a server that does not read: 256 of the longest requests.
inline constexpr size_t kMaxQueuedForServer = size_t{256} << 20;

// --- A session's requests

// A group watches a handful of prefixes.
inline constexpr size_t kWatchesPerSession = 4096;
// Requests that wait for an answer; only a gather does. A group has one or two at a time.
inline constexpr size_t kGathersPerSession = 4096;
// Keys that vanish with the session that set them.
inline constexpr size_t kSessionKeysPerSession = 16384;
// Of the gathers that it waits for, the bytes of its values: all of them together are
// kMaxWaitingBytes, and one rank has no more than an eighth.
inline constexpr size_t kWaitingBytesPerSession = size_t{64} << 20;

// --- A rank's keys, over all its sessions: a quarter of the store, so that one that never deletes
// anything leaves room for the others.

inline constexpr size_t kKeysPerRank = 1 << 18;
inline constexpr size_t kKeyBytesPerRank = size_t{64} << 20;

// --- The whole store. It lives in a launcher's memory, beside the ranks: at most the keys, the
// values that wait and what is queued (kMaxQueued), and of each connection one request.

inline constexpr size_t kMaxKeys = 1 << 20;
inline constexpr size_t kMaxBytes = size_t{256} << 20;  // of keys and values
inline constexpr size_t kMaxGathers = 65536;            // that wait at once
// The values of one gather: each rank is sent all of them. And of all gathers that wait.
inline constexpr size_t kMaxGatherBytes = size_t{256} << 20;
inline constexpr size_t kMaxWaitingBytes = size_t{512} << 20;

}  // namespace muster::store_internal

#endif  // MUSTER_CORE_STORE_LIMITS_H_
