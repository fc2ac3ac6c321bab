#include "muster/trainer/examples/pseudo_terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

absl::Status Unavailable(const char* what) {
  return absl::UnavailableError(absl::StrCat("no pseudo-terminal: ", what, ": ", strerror(errno)));
}

}  // namespace

absl::StatusOr<PseudoTerminal> PseudoTerminal::Open(int columns) {
  // Not posix_openpt, which passes O_CLOEXEC on only where it is Linux's.
  PseudoTerminal terminal(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), -1);
  if (terminal.screen_ < 0) return Unavailable("/dev/ptmx");
  char name[128];
  if (grantpt(terminal.screen_) != 0 || unlockpt(terminal.screen_) != 0 ||
      ptsname_r(terminal.screen_, name, sizeof(name)) != 0) {
    return Unavailable("its other end");
  }
  terminal.program_ = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal.program_ < 0) return Unavailable(name);
  termios mode;
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);  // NOLINT(google-runtime-int): its type
  if (tcgetattr(terminal.program_, &mode) != 0) return Unavailable("tcgetattr");
  cfmakeraw(&mode);  // else a line ends with a carriage return more
  if (tcsetattr(terminal.program_, TCSANOW, &mode) != 0 ||
      ioctl(terminal.program_, TIOCSWINSZ, &size) != 0) {
    return Unavailable("its settings");
  }
  return terminal;
}

PseudoTerminal::~PseudoTerminal() {
  if (screen_ >= 0) close(screen_);
  if (program_ >= 0) close(program_);
}

}  // namespace muster
