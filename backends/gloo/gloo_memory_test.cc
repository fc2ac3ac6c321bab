// What third_party/gloo/patches/release_order.patch is for.
#include <memory>
#include <thread>  // NOLINT(build/c++11): the other user

#include "absl/synchronization/notification.h"
#include "gloo/common/memory.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// As gloo's thread uses a buffer that the thread of an operation destroys. Only TSan can tell.
TEST(GlooMemoryTest, WhoDestroysABufferSeesWhatItsLastUserWrote) {
  struct Memory {
    int value = 0;
  };
  // A little later each time, so that the owner has begun to wait in some of them.
  for (int yields = 0; yields < 100; ++yields) {
    Memory memory;
    auto owner = std::make_unique<::gloo::ShareableNonOwningPtr<Memory>>(&memory);
    const ::gloo::WeakNonOwningPtr<Memory> weak(*owner);
    absl::Notification used;
    absl::Notification ends;
    std::thread user([&] {
      const ::gloo::NonOwningPtr<Memory> ours(weak);
      used.Notify();
      ends.WaitForNotification();
      for (int i = 0; i < yields; ++i) std::this_thread::yield();
      ours->value = 1;
    });
    used.WaitForNotification();
    ends.Notify();
    owner = nullptr;
    EXPECT_EQ(memory.value, 1);
    user.join();
  }
}

}  // namespace
}  // namespace muster
