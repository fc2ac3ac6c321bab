// Who has come how far, asked when an operation is late: the backend of a rank knows at most whom
// that rank waits for, which may be a rank that waits itself.
//
// Whoever asks writes a key of the group that every rank watches. Each rank's control thread, which
// is free also where the rank is stuck in user code, answers with a gather, so that all who ask get
// all answers. Where nothing is late it costs nothing.
#ifndef MUSTER_CORE_GROUP_OPERATION_CENSUS_H_
#define MUSTER_CORE_GROUP_OPERATION_CENSUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/store/store.h"

namespace muster {

inline constexpr absl::string_view kLateKeyPrefix = "late/";  // "late/train/1", "late/a@0,2/1"

// How far a rank's collectives have come.
struct OperationPlace {
  int64_t issued = 0;  // the number of the last one that it entered
  std::string inside;  // what it is in: "all_reduce #41"; "" for nothing

  std::string Encode() const;
  static OperationPlace Decode(absl::string_view text);  // of anything else: nothing entered
};

// "rank 2 has not entered it (it is after #40)", "ranks 2, 3 have not entered it (rank 2 is in
// barrier #40)"; "every rank has entered it". `places`: by rank of the group; `members`: which rank
// of the job each is, empty for its own number.
std::string WhoHasNotEntered(int64_t number, const std::vector<OperationPlace>& places,
                             const std::vector<int>& members);

// Lives on the store's executor: every method is called there, and so are the answers.
class OperationCensus : public std::enable_shared_from_this<OperationCensus> {
 public:
  struct Options {
    Store* store = nullptr;
    std::string group;      // "train/1": its scope and generation (GroupScope)
    Gathering among;        // of the group's ranks
    absl::Duration window;  // how long it takes at most
    std::function<absl::Time()> now;
    std::function<OperationPlace()> place;  // of this rank
  };
  // The places by rank; the store's error where not all ranks answered, which names them.
  using Answer = std::function<void(absl::StatusOr<std::vector<OperationPlace>>)>;

  explicit OperationCensus(Options options) : options_(std::move(options)) {}

  // Answers once, unless it is stopped or the executor has ended before.
  void Ask(Answer answer);
  // News: somebody asks, by the key's change to `revision`.
  void OnAsked(Revision revision);
  // Nobody is answered any more.
  void Stop() { waiting_.clear(); }

 private:
  void Conclude(const absl::StatusOr<std::vector<OperationPlace>>& places);

  const Options options_;
  bool under_way_ = false;  // a question of whomever
  std::vector<Answer> waiting_;
};

}  // namespace muster

#endif  // MUSTER_CORE_GROUP_OPERATION_CENSUS_H_
