#include "muster/backends/reference/mesh.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/flow.h"
#include "muster/backends/reference/interrupt.h"
#include "muster/core/platform/describe_ranks.h"

namespace muster::reference {
namespace {

// What both ends of a new connection send, in the machine's byte order.
struct Hello {
  static constexpr uint32_t kMagic = 0x4d525331;
  uint32_t magic = kMagic;
  int32_t from = -1;
  int32_t to = -1;
  Nonce nonce = {};  // of the rank that it is sent to
};

struct Invitation {
  std::string address;
  int port = 0;
  Nonce nonce = {};
};

absl::StatusOr<Invitation> Parse(absl::string_view text, int rank) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  Invitation result;
  std::string nonce;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &result.port) ||
      !absl::HexStringToBytes(parts[2], &nonce) || nonce.size() != result.nonce.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " published \"", absl::CEscape(text.substr(0, 100)),
        "\", which is no \"<address> <port> <nonce>\": do all ranks run one version?"));
  }
  result.address = std::string(parts[0]);
  std::memcpy(result.nonce.data(), nonce.data(), nonce.size());
  return result;
}

// Accepts every rank above `rank` into `links`. Connections are read side by side, so that one
// which says nothing holds up nobody.
absl::Status AcceptHigherRanks(int rank, const Nonce& nonce, const Descriptor& listening,
                               const Interrupt& interrupt, absl::Time deadline,
                               std::vector<Descriptor>& links) {
  struct Guest {
    Descriptor socket;
    Hello hello;
    size_t received = 0;
  };
  std::vector<Guest> guests;
  while (true) {
    std::vector<int> missing;
    for (size_t r = static_cast<size_t>(rank) + 1; r < links.size(); ++r) {
      if (!links[r].open()) missing.push_back(static_cast<int>(r));
    }
    if (missing.empty()) return absl::OkStatus();

    std::vector<pollfd> polled = {{listening.fd(), POLLIN, 0}};
    for (const Guest& guest : guests) polled.push_back({guest.socket.fd(), POLLIN, 0});
    absl::Status status = WaitUntilReady(polled, interrupt, deadline);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat(DescribeRanks(missing), " did not connect to rank ", rank));
    }
    if (!status.ok()) return status;

    std::vector<Guest> waiting;
    for (Guest& guest : guests) {
      char* const into = reinterpret_cast<char*>(&guest.hello) + guest.received;
      const ssize_t n = recv(guest.socket.fd(), into, sizeof(Hello) - guest.received, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        waiting.push_back(std::move(guest));
        continue;
      }
      if (n <= 0) continue;  // gone: dropped
      guest.received += static_cast<size_t>(n);
      if (guest.received < sizeof(Hello)) {
        waiting.push_back(std::move(guest));
        continue;
      }
      const Hello& hello = guest.hello;
      if (hello.magic == Hello::kMagic && hello.to == rank && hello.nonce == nonce &&
          hello.from > rank && static_cast<size_t>(hello.from) < links.size() &&
          !links[static_cast<size_t>(hello.from)].open()) {
        links[static_cast<size_t>(hello.from)] = std::move(guest.socket);
      }
    }
    guests = std::move(waiting);

    if ((polled[0].revents & POLLIN) != 0) {
      absl::StatusOr<Descriptor> socket = Accept(listening);
      if (!socket.ok()) return socket.status();
      // Strangers may not fill up the process: the oldest of many that say nothing goes.
      if (guests.size() >= links.size() + 64) guests.erase(guests.begin());
      if (socket->open()) guests.push_back(Guest{*std::move(socket), {}, 0});
    }
  }
}

}  // namespace

absl::StatusOr<Meeting> Meeting::Open(const std::string& address) {
  Meeting meeting;
  absl::StatusOr<ListeningSocket> listening = Listen(address);
  if (!listening.ok()) return listening.status();
  meeting.listening_ = *std::move(listening);
  if (getrandom(meeting.nonce_.data(), meeting.nonce_.size(), 0) !=
      static_cast<ssize_t>(meeting.nonce_.size())) {
    return absl::UnavailableError(absl::StrCat("getrandom failed: ", ErrorText(errno)));
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(meeting.nonce_.data()),
                                meeting.nonce_.size());
  meeting.invitation_ =
      absl::StrCat(address, " ", meeting.listening_.port, " ", absl::BytesToHexString(bytes));
  if (meeting.invitation_.size() > kMaxInvitation) {
    return absl::InvalidArgumentError(absl::StrCat("the address \"", address, "\" is too long"));
  }
  return meeting;
}

absl::StatusOr<std::vector<Descriptor>> Meeting::Meet(int rank,
                                                      const std::vector<std::string>& invitations,
                                                      const Interrupt& interrupt,
                                                      absl::Time deadline) {
  const size_t size = invitations.size();
  const size_t self = static_cast<size_t>(rank);
  std::vector<Descriptor> links(size);
  std::vector<Hello> sent(size);
  std::vector<Hello> received(size);
  std::vector<Nonce> nonces(size);

  // Connecting needs nobody's attention: the system of the other rank accepts for it.
  std::vector<Flow> hellos;
  for (size_t r = 0; r < size; ++r) {
    absl::StatusOr<Invitation> invitation = Parse(invitations[r], static_cast<int>(r));
    if (!invitation.ok()) return invitation.status();
    nonces[r] = invitation->nonce;
    sent[r].from = rank;
    sent[r].to = static_cast<int32_t>(r);
    sent[r].nonce = invitation->nonce;
    if (r >= self) continue;
    absl::StatusOr<Descriptor> socket = StartConnect(invitation->address, invitation->port);
    if (!socket.ok()) return socket.status();
    links[r] = *std::move(socket);
    hellos.push_back(Flow::Send(links[r].fd(), static_cast<int>(r), &sent[r], sizeof(Hello)));
  }
  absl::Status status = Run(hellos, -1, interrupt, deadline);
  if (!status.ok()) return status;

  status = AcceptHigherRanks(rank, nonce_, listening_.socket, interrupt, deadline, links);
  if (!status.ok()) return status;

  std::vector<Flow> answers;
  for (size_t r = 0; r < size; ++r) {
    const int peer = static_cast<int>(r);
    if (r > self) answers.push_back(Flow::Send(links[r].fd(), peer, &sent[r], sizeof(Hello)));
    if (r < self) {
      answers.push_back(Flow::Receive(links[r].fd(), peer, &received[r], sizeof(Hello)));
    }
  }
  status = Run(answers, -1, interrupt, deadline);
  if (!status.ok()) return status;
  for (size_t r = 0; r < self; ++r) {
    if (received[r].magic != Hello::kMagic || received[r].from != static_cast<int32_t>(r) ||
        received[r].to != rank || received[r].nonce != nonce_) {
      return absl::UnavailableError(absl::StrCat(
          "at the address of rank ", r, ", ", invitations[r].substr(0, invitations[r].rfind(' ')),
          ", somebody else answered"));
    }
  }
  return links;
}

}  // namespace muster::reference
