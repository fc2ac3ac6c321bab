// Owns a file descriptor.
#ifndef MUSTER_CORE_LAUNCH_UNIQUE_FD_H_
#define MUSTER_CORE_LAUNCH_UNIQUE_FD_H_

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace muster {

// Move-only.
class [[nodiscard]] UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  // Moves it out of 0, 1 and 2, where it lands when the program was started without them and where
  // a child's own would overwrite it. Close-on-exec. Invalid when there is no descriptor to be had.
  void MoveAboveStandard() {
    if (fd_ < 0 || fd_ > STDERR_FILENO) return;
    *this = UniqueFd(fcntl(fd_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  }

 private:
  int fd_ = -1;
};

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_UNIQUE_FD_H_
