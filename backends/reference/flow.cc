#include "muster/backends/reference/flow.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster::reference {
namespace {

// What poll takes: rounded up, so that a wait never ends just before its deadline and spins.
int PollTimeout(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration left = deadline - MonotonicNow();
  const int64_t milliseconds = absl::ToInt64Milliseconds(left + absl::Milliseconds(1));
  return static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 60'000'000));
}

absl::Status LostContact(int peer, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("lost contact with rank ", peer, ": ", why));
}

// Moves what can be moved without waiting.
absl::Status Advance(Flow& flow) {
  while (flow.done < flow.bytes) {
    char* const data = flow.data + flow.done;
    const size_t rest = static_cast<size_t>(flow.bytes - flow.done);
    const ssize_t moved = flow.send ? send(flow.fd, data, rest, MSG_NOSIGNAL | MSG_DONTWAIT)
                                    : recv(flow.fd, data, rest, MSG_DONTWAIT);
    if (moved > 0) {
      flow.done += moved;
    } else if (moved == 0) {
      return LostContact(flow.peer, "it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return absl::OkStatus();
    } else if (errno != EINTR) {
      return LostContact(flow.peer, ErrorText(errno));
    }
  }
  return flow.complete ? std::exchange(flow.complete, nullptr)() : absl::OkStatus();
}

// The flows that are to move now: of each socket and direction the first that is not done.
std::vector<Flow*> Active(std::vector<Flow>& flows) {
  std::vector<Flow*> active;
  std::set<std::pair<int, bool>> taken;
  for (Flow& flow : flows) {
    if (flow.done < flow.bytes && taken.insert({flow.fd, flow.send}).second) {
      active.push_back(&flow);
    }
  }
  return active;
}

std::string Peers(const std::vector<Flow*>& flows) {
  std::set<int> peers;
  for (const Flow* flow : flows) peers.insert(flow->peer);
  return DescribeRanks(std::vector<int>(peers.begin(), peers.end()));
}

}  // namespace

Flow Flow::Send(int fd, int peer, const void* data, int64_t bytes) {
  Flow flow;
  flow.fd = fd;
  flow.peer = peer;
  flow.send = true;
  flow.data = const_cast<char*>(static_cast<const char*>(data));
  flow.bytes = bytes;
  return flow;
}

Flow Flow::Receive(int fd, int peer, void* data, int64_t bytes) {
  Flow flow;
  flow.fd = fd;
  flow.peer = peer;
  flow.data = static_cast<char*>(data);
  flow.bytes = bytes;
  return flow;
}

absl::Status WaitUntilReady(std::vector<pollfd>& polled, const Interrupt& interrupt,
                            absl::Time deadline) {
  polled.push_back({interrupt.fd(), POLLIN, 0});
  while (true) {
    if (absl::Status cause = interrupt.cause(); !cause.ok()) return cause;
    const int ready = poll(polled.data(), polled.size(), PollTimeout(deadline));
    if (absl::Status cause = interrupt.cause(); !cause.ok()) return cause;
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) {
      return absl::UnavailableError(absl::StrCat("cannot wait for sockets: ", ErrorText(errno)));
    }
    if (MonotonicNow() >= deadline) return absl::DeadlineExceededError("");
  }
  polled.pop_back();
  return absl::OkStatus();
}

absl::Status Run(std::vector<Flow>& flows, int until, const Interrupt& interrupt,
                 absl::Time deadline) {
  while (true) {
    for (Flow* flow : Active(flows)) {
      absl::Status status = Advance(*flow);
      if (status.ok()) continue;
      // Cut by our own Abort?
      if (absl::Status cause = interrupt.cause(); !cause.ok()) return cause;
      // A peer that takes no more may have said why before: then what it sent tells more.
      const bool also_receives =
          flow->send && std::any_of(flows.begin(), flows.end(), [flow](const Flow& other) {
            return !other.send && other.fd == flow->fd && other.done < other.bytes;
          });
      if (!also_receives) return status;
      for (Flow& other : flows) {
        if (other.send && other.fd == flow->fd) other.done = other.bytes;
      }
    }
    if (until >= 0 && flows[until].done == flows[until].bytes) return absl::OkStatus();
    const std::vector<Flow*> active = Active(flows);
    if (active.empty()) return absl::OkStatus();

    std::vector<pollfd> polled;
    polled.reserve(active.size() + 1);
    for (const Flow* flow : active) {
      polled.push_back(
          {flow->fd, static_cast<decltype(pollfd::events)>(flow->send ? POLLOUT : POLLIN), 0});
    }
    absl::Status status = WaitUntilReady(polled, interrupt, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the deadline passed while this rank waited for ", Peers(active)));
    }
    if (!status.ok()) return status;
  }
}

}  // namespace muster::reference
