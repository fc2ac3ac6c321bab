// A terminal without a screen, for tests of what a program shows to somebody who watches it.
#ifndef MUSTER_TRAINER_EXAMPLES_PSEUDO_TERMINAL_H_
#define MUSTER_TRAINER_EXAMPLES_PSEUDO_TERMINAL_H_

#include <utility>

#include "absl/status/statusor.h"

namespace muster {

// Both ends, close-on-exec. Bytes pass unchanged. Move-only.
class PseudoTerminal {
 public:
  // Of `columns` columns. Unavailable where this system gives none: the reason.
  static absl::StatusOr<PseudoTerminal> Open(int columns);

  PseudoTerminal(PseudoTerminal&& other) noexcept
      : screen_(std::exchange(other.screen_, -1)), program_(std::exchange(other.program_, -1)) {}
  PseudoTerminal& operator=(PseudoTerminal&&) = delete;
  ~PseudoTerminal();

  // The end that a program has as its output: the caller closes it, so that reading ends when the
  // program has.
  int ReleaseProgram() { return std::exchange(program_, -1); }
  // The end where its output is read; an error of reading (EIO) is the end of it.
  int ReleaseScreen() { return std::exchange(screen_, -1); }

 private:
  PseudoTerminal(int screen, int program) : screen_(screen), program_(program) {}

  int screen_;
  int program_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_PSEUDO_TERMINAL_H_
