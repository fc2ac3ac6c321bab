#include "muster/core/platform/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace muster {
namespace {

// The child's handler may only do what is async-signal-safe, so this is a plain table of atomics:
// no lock that another thread could have held at the moment of the fork. Slots hold fd + 1; 0 is
// free.
constexpr int kSlots = 65536;
std::atomic<int> slots[kSlots];
std::atomic<int> slots_used{0};  // every slot in use lies below
std::atomic<uint64_t> generation{0};

static_assert(std::atomic<int>::is_always_lock_free, "the child's handler must not take a lock");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the same");

void InChild() {
  generation.fetch_add(1);
  const int used = slots_used.load();
  for (int i = 0; i < used; ++i) {
    const int value = slots[i].exchange(0);
    if (value > 0) close(value - 1);
  }
}

void Install() {
  static const int installed = pthread_atfork(nullptr, nullptr, InChild);
  (void)installed;  // fails only without memory; then a child keeps what exec would close
}

int Take(int fd) {
  Install();
  for (int i = 0; i < kSlots; ++i) {
    int free = 0;
    if (!slots[i].compare_exchange_strong(free, fd + 1)) continue;
    int used = slots_used.load();
    while (used < i + 1 && !slots_used.compare_exchange_weak(used, i + 1)) {
    }
    return i;
  }
  return -1;
}

}  // namespace

uint64_t ForkGeneration() {
  Install();
  return generation.load();
}

ForkGuardedFd::ForkGuardedFd(int fd)
    : slot_(fd >= 0 ? Take(fd) : -1), fd_(fd), made_in_(ForkGeneration()) {}

ForkGuardedFd::ForkGuardedFd(ForkGuardedFd&& other) noexcept
    : slot_(std::exchange(other.slot_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      made_in_(other.made_in_) {}

ForkGuardedFd& ForkGuardedFd::operator=(ForkGuardedFd&& other) noexcept {
  if (this != &other) {
    Reset();
    slot_ = std::exchange(other.slot_, -1);
    fd_ = std::exchange(other.fd_, -1);
    made_in_ = other.made_in_;
  }
  return *this;
}

void ForkGuardedFd::Reset() {
  if (slot_ < 0) return;
  // In a child the handler has emptied the slot, and the child's own connection may have it by now,
  // under the same number even: what stands there is ours only in the process that put it there.
  if (made_in_ == ForkGeneration()) {
    int mine = fd_ + 1;
    slots[slot_].compare_exchange_strong(mine, 0);
  }
  slot_ = -1;
  fd_ = -1;
}

}  // namespace muster
