// The launcher's store: a TcpStoreServer on a unix socket, or on the loopback interface.
#ifndef MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
#define MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_

#include <string>

#include "absl/time/time.h"
#include "muster/core/launch/launched_store.h"

namespace muster {

struct ServeStoreOptions {
  // How long a rank's session outlives its connection. The launcher reaps a process within
  // milliseconds of its connection's end and knows more than "its connection closed"; where the
  // machine is too busy even for that, peers still learn it within a second.
  absl::Duration loss_grace = absl::Milliseconds(300);
  // Where a private folder is made for a unix socket that has no place in the job's.
  std::string short_folder = "/tmp";
};

// For JobOptions::store. On the loopback interface, on a port of the system's choice.
LaunchedStoreFactory ServeTcpStore(ServeStoreOptions options = {});

// For JobOptions::store. On a unix socket in the job's private folder: only processes of this user
// reach it, by the word of the system, and it costs less. Where the folder's path is too long for a
// socket (107 bytes; TMPDIR decides) or its file system has none, in another private folder, which
// goes with the store. Where that has no place either, or the system no unix sockets, on TCP as
// above, which LaunchedStore::Notice says. Everything else is an error.
LaunchedStoreFactory ServeUnixStore(ServeStoreOptions options = {});

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_TCP_LAUNCHED_STORE_H_
