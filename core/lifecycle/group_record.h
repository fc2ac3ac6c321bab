// The one bounded record per group name that outlives a group (L8), and the votes of a close: what
// ranks write to the store.
#ifndef MUSTER_CORE_LIFECYCLE_GROUP_RECORD_H_
#define MUSTER_CORE_LIFECYCLE_GROUP_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace muster {

// A rank's wish to end a generation. Peers learn of it from the record and vote.
struct CloseIntent {
  enum class Kind {
    kClose,    // the owner closes: every rank drains and agrees
    kReplace,  // somebody wants this name with another identity: a rank that holds a lease refuses
  };
  int64_t number = 0;  // 1, 2, ... within a generation: each has votes of its own
  Kind kind = Kind::kClose;
  int rank = 0;          // who asks
  int64_t sequence = 0;  // the last collective that it issued
  // kClose: how long the one who closes waits for the others. Whole milliseconds, not negative.
  absl::Duration timeout;
  std::string wanted;  // kReplace: what differs, "backend: gloo here, reference wanted"

  std::string ClosedBy() const;  // "rank 0 closed after #41"
};

// "group/<name>" in the store. Changed by compare-and-set alone, so there is one order of events,
// and the first cause is everybody's.
struct GroupRecord {
  int64_t generation = 0;              // the highest so far
  std::vector<uint64_t> incarnations;  // of its members' sessions, by rank
  std::optional<CloseIntent> intent;   // the latest
  absl::Status cause;                  // not OK: the generation failed, and why

  // The rank that `cause` blames: those that are one rank's fault begin with it ("rank 1: label 17
  // out of range", "rank 1 left: ..."). A cause that only says who saw it ("... on rank 0") has
  // none.
  std::optional<int> RankAtFault() const;

  // That fault is that the rank's process or pool ended under the group: no way to end well,
  // whatever the exit code.
  bool BlamesAnEnd() const;

  std::string Encode() const;
  // DataLoss for anything that Encode did not write.
  static absl::StatusOr<GroupRecord> Decode(absl::string_view text);
};

// A rank's answer to a CloseIntent.
struct CloseVote {
  int64_t sequence = 0;  // the last collective that finished here
  std::string holders;   // not empty: refused, since these hold a lease ("trainer.cc:88")

  std::string Encode() const;
  static absl::StatusOr<CloseVote> Decode(absl::string_view text);
};

// What stands for a group in the keys of the store: its name, and with members that are not all
// ranks of the job those too ("a@0,2"). So groups of one name without a rank in common are two.
std::string GroupScope(absl::string_view name, absl::Span<const int> members);

// Each of the keys below takes the scope.
inline constexpr absl::string_view kGroupKeyPrefix = "group/";
std::string GroupRecordKey(absl::string_view scope);                    // "group/train"
std::string MeetKey(absl::string_view scope);                           // "meet/train"
std::string ConnectedKey(absl::string_view scope, int64_t generation);  // "connected/train/1"
std::string VoteKey(absl::string_view scope, int64_t generation,
                    int64_t intent_number);  // "close/train/1/2"

}  // namespace muster

#endif  // MUSTER_CORE_LIFECYCLE_GROUP_RECORD_H_
