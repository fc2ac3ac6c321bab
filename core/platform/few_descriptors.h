// For tests: a process that has almost no descriptors left.
#ifndef MUSTER_CORE_PLATFORM_FEW_DESCRIPTORS_H_
#define MUSTER_CORE_PLATFORM_FEW_DESCRIPTORS_H_

#include <sys/resource.h>

#include <vector>

namespace muster {

// While it lives, `count` more descriptors can be opened in this process; whatever is closed can be
// opened again.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t count);
  ~FewDescriptors();
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_ = {};
  std::vector<int> fill_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_FEW_DESCRIPTORS_H_
