// Whoever makes the choices of a simulated run: a seed, or an explorer that tries them all.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_CHOOSER_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_CHOOSER_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/fault.h"

namespace muster::simulation {

class Chooser {
 public:
  virtual ~Chooser() = default;

  // A detail: 0 <= result < limit.
  virtual uint64_t Below(uint64_t limit) = 0;
  // Whether `fault` happens now, which it does in `per_mille` of a thousand cases.
  virtual bool Strikes(Fault fault, int per_mille) = 0;

  bool Chance(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + absl::Microseconds(Below(absl::ToInt64Microseconds(high - low) + 1));
  }
};

// The same choices on every machine and standard library.
class RandomChooser final : public Chooser {
 public:
  explicit RandomChooser(uint64_t seed) : engine_(seed) {}

  uint64_t Below(uint64_t limit) override { return engine_() % limit; }
  bool Strikes(Fault, int per_mille) override {
    return Below(1000) < static_cast<uint64_t>(per_mille);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_CHOOSER_H_
