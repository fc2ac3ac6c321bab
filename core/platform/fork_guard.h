// What a forked child must not keep.
//
// fork copies the descriptors of the parent but none of its threads. A child that kept a connection
// to the store would hide its parent's death, and objects whose thread is gone would wait for it
// for ever. So every connection is registered here and closed in the child at once, and whoever
// owns a thread remembers the generation it was made in:
//
//   ForkGuardedFd guarded(fd);                    // while the connection is open
//   const uint64_t made_in = ForkGeneration();
//   ...
//   if (made_in != ForkGeneration()) return absl::FailedPreconditionError("made before fork():
//   ...");
#ifndef MUSTER_CORE_PLATFORM_FORK_GUARD_H_
#define MUSTER_CORE_PLATFORM_FORK_GUARD_H_

#include <cstdint>

namespace muster {

// How many forks lie between the process that first asked and this one: 0 there, one more in each
// child. The first call installs the handler that counts and closes, so call it when the object
// that must know is made. Thread-safe, async-signal-safe after the first call. A child made by
// vfork, posix_spawn or a raw clone runs no handlers; the first two execute another program, where
// close-on-exec does the work.
uint64_t ForkGeneration();

// While it lives, `fd` is closed in every child that this process forks. Call shutdown on a
// connection before this ends: a fork in the moment between this and close() then keeps a dead
// connection only. Move-only. Thread-compatible.
class [[nodiscard]] ForkGuardedFd {
 public:
  ForkGuardedFd() = default;
  explicit ForkGuardedFd(int fd);
  ForkGuardedFd(ForkGuardedFd&& other) noexcept;
  ForkGuardedFd& operator=(ForkGuardedFd&& other) noexcept;
  ~ForkGuardedFd() { Reset(); }

  void Reset();

  // False where `fd` is not guarded: nothing was given, or more than 65536 are registered.
  bool guarded() const { return slot_ >= 0; }

 private:
  int slot_ = -1;
  int fd_ = -1;
  uint64_t made_in_ = 0;  // the process, as ForkGeneration
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_FORK_GUARD_H_
