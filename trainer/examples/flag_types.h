// Types of flags that refuse what makes no sense while the command line is read: the message has
// the flag, the value and what is accepted.
#ifndef MUSTER_TRAINER_EXAMPLES_FLAG_TYPES_H_
#define MUSTER_TRAINER_EXAMPLES_FLAG_TYPES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/trainer/trainer.h"

namespace muster {

// A whole number of at least 1 and at most 1,000,000.
struct CountFlag {
  int64_t value = 1;
};
bool AbslParseFlag(absl::string_view text, CountFlag* flag, std::string* error);
std::string AbslUnparseFlag(const CountFlag& flag);

// A finite number greater than 0.
struct RateFlag {
  double value = 1;
};
bool AbslParseFlag(absl::string_view text, RateFlag* flag, std::string* error);
std::string AbslUnparseFlag(const RateFlag& flag);

// A number of at least 0 and less than 1.
struct FractionFlag {
  double value = 0;
};
bool AbslParseFlag(absl::string_view text, FractionFlag* flag, std::string* error);
std::string AbslUnparseFlag(const FractionFlag& flag);

// A duration greater than 0, or inf.
struct TimeoutFlag {
  absl::Duration value = absl::Seconds(1);
};
bool AbslParseFlag(absl::string_view text, TimeoutFlag* flag, std::string* error);
std::string AbslUnparseFlag(const TimeoutFlag& flag);

// trainer or stage.
bool AbslParseFlag(absl::string_view text, GroupLifetime* flag, std::string* error);
std::string AbslUnparseFlag(GroupLifetime flag);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_FLAG_TYPES_H_
