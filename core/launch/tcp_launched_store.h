// The launcher's store: a TcpStoreServer on the loopback interface, on a port of the system's
// choice.
#ifndef MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
#define MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_

#include "muster/core/launch/launched_store.h"

namespace muster {

// For JobOptions::store.
LaunchedStoreFactory ServeTcpStore();

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
