// One connection between each two ranks, and how the ranks find each other.
//
//   Interrupt interrupt;                                   // opened; raised by whoever gives up
//   absl::StatusOr<Meeting> meeting = Meeting::Open("127.0.0.1");
//   // tell all ranks meeting->invitation(), learn theirs: `invitations`, in the order of ranks
//   absl::StatusOr<std::vector<Descriptor>> links =
//       meeting->Meet(rank, invitations, interrupt, deadline);
//
// Each rank connects to those below it and accepts those above it. An invitation holds a random
// number that only the ranks of this generation know, and both ends of a connection present the
// other's: a stranger, or a rank of an older generation that hits the same port, is dropped.
#ifndef MUSTER_BACKENDS_REFERENCE_MESH_H_
#define MUSTER_BACKENDS_REFERENCE_MESH_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/backends/reference/descriptor.h"
#include "muster/backends/reference/interrupt.h"

namespace muster::reference {

using Nonce = std::array<uint8_t, 16>;

class Meeting {
 public:
  // Listens on a port of `address` that the system chooses.
  static absl::StatusOr<Meeting> Open(const std::string& address);

  // "127.0.0.1 41231 00112233445566778899aabbccddeeff": at most kMaxInvitation bytes.
  static constexpr size_t kMaxInvitation = 128;
  const std::string& invitation() const { return invitation_; }

  // The connections, by rank; that of this rank itself is closed. Collective. Errors: the
  // interrupt's cause; DeadlineExceeded naming the ranks that did not come; Unavailable naming the
  // lost rank.
  absl::StatusOr<std::vector<Descriptor>> Meet(int rank,
                                               const std::vector<std::string>& invitations,
                                               const Interrupt& interrupt, absl::Time deadline);

 private:
  Meeting() = default;

  ListeningSocket listening_;
  Nonce nonce_ = {};
  std::string invitation_;
};

}  // namespace muster::reference

#endif  // MUSTER_BACKENDS_REFERENCE_MESH_H_
