// The launcher's store: a TcpStoreServer on a unix socket, or on the loopback interface.
#ifndef MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
#define MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_

#include "muster/core/launch/launched_store.h"

namespace muster {

// For JobOptions::store. On the loopback interface, on a port of the system's choice.
LaunchedStoreFactory ServeTcpStore();

// For JobOptions::store. On a unix socket in the job's private folder: only processes of this user
// reach it, by the word of the system, and it costs less. Where there is no folder, its path is too
// long for a socket (some 100 bytes; TMPDIR decides) or the file system has none, on TCP as above,
// with the reason in the log.
LaunchedStoreFactory ServeUnixStore();

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
