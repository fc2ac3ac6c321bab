// Finds out before the first step whether all ranks are about to do the same.
//
// Ranks that disagree on a number of batches or on a size wait for each other for ever, or average
// the wrong things. So each stage begins with one exchange of its facts. Every rank sees those of
// all, so every rank returns the same error, and the group stays usable.
#ifndef MUSTER_TRAINER_AGREEMENT_H_
#define MUSTER_TRAINER_AGREEMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/trainer/collectives.h"

namespace muster {

// A named value, in 64 bits.
class Fact {
 public:
  static Fact Integer(absl::string_view name, int64_t value);
  static Fact Real(absl::string_view name, double value);
  // Of `word` the first 8 characters count.
  static Fact Word(absl::string_view name, absl::string_view word);

  const std::string& name() const { return name_; }
  int64_t bits() const { return bits_; }
  // `bits` as this fact's kind of value: "32", "0.1", "fit".
  std::string Show(int64_t bits) const;

 private:
  enum class Kind { kInteger, kReal, kWord };
  Fact(absl::string_view name, Kind kind, int64_t bits) : name_(name), kind_(kind), bits_(bits) {}

  std::string name_;
  Kind kind_;
  int64_t bits_;
};

inline constexpr int kMaxFacts = 24;

// Collective. `here` is what this rank has found wrong by itself (OK: nothing); the exchange
// spreads it. Every rank must come here, also one whose `here` is not OK. At most kMaxFacts facts,
// the first of which says what follows: their number may differ among ranks that differ in it.
// Errors, the same on every rank: `here` of the first rank that has one ("rank 1: the data set is
// empty ..."); else InvalidArgument with the first fact that differs ("rank 1 has batch_size 32 and
// rank 0 has 64"); else the group's.
absl::Status Agree(Collectives& collectives, const absl::Status& here,
                   absl::Span<const Fact> facts);

}  // namespace muster

#endif  // MUSTER_TRAINER_AGREEMENT_H_
