// The only place of this backend that waits: bytes that flow over sockets, many at once, until a
// deadline or an interrupt.
#ifndef MUSTER_BACKENDS_REFERENCE_FLOW_H_
#define MUSTER_BACKENDS_REFERENCE_FLOW_H_

#include <poll.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "muster/backends/reference/interrupt.h"

namespace muster::reference {

// `bytes` bytes at `data` that go to or come from one peer.
struct Flow {
  static Flow Send(int fd, int peer, const void* data, int64_t bytes);
  static Flow Receive(int fd, int peer, void* data, int64_t bytes);

  int fd = -1;
  int peer = 0;  // for messages
  bool send = false;
  char* data = nullptr;  // only read when `send`
  int64_t bytes = 0;
  int64_t done = 0;
  // Called once all bytes are here, before the next flow of this socket and direction begins.
  std::function<absl::Status()> complete;
};

// Moves all flows together; those of one socket and direction one after the other, in their order.
// Returns when all are done, or at once when flow number `until` is (-1: none is special).
//
// Errors: the interrupt's cause; DeadlineExceeded naming the ranks that were waited for;
// Unavailable ("lost contact with rank 2: Connection reset by peer"); what a `complete` returned.
absl::Status Run(std::vector<Flow>& flows, int until, const Interrupt& interrupt,
                 absl::Time deadline);

// Waits until one of `polled` is ready for its events, as poll(2) does, which fills in what it is
// ready for. The interrupt's cause, or DeadlineExceeded with an empty message.
absl::Status WaitUntilReady(std::vector<pollfd>& polled, const Interrupt& interrupt,
                            absl::Time deadline);

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_FLOW_H_
