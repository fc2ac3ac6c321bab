// What this process holds, counted by asking the system: the proof that a group left nothing.
#ifndef MUSTER_CORE_OBSERVE_PROCESS_HOLDINGS_H_
#define MUSTER_CORE_OBSERVE_PROCESS_HOLDINGS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace muster {

struct ProcessHoldings {
  int64_t groups = 0;    // process groups alive, over all pools
  int64_t fds = 0;       // open file descriptors
  int64_t threads = 0;   // of the process, this one included
  int64_t segments = 0;  // shared-memory segments that are mapped
  // Why something could not be counted, or "": then nothing is known, and least of all that there
  // is nothing ("cannot open /proc/self/fd: Too many open files").
  std::string unknown;

  static ProcessHoldings Now();

  // What is held now beyond `baseline`; never negative; unknown when either is. A thread that was
  // joined is listed by the kernel for a moment longer, so an excess is looked at again until it is
  // gone, at most for `patience`.
  static ProcessHoldings Beyond(const ProcessHoldings& baseline, absl::Duration patience);

  bool empty() const {
    return unknown.empty() && groups == 0 && fds == 0 && threads == 0 && segments == 0;
  }
  std::string ToString() const;  // "nothing"; "1 group, 3 fds"; "unknown (cannot open ...)"
};

}  // namespace muster

#endif  // MUSTER_CORE_OBSERVE_PROCESS_HOLDINGS_H_
