// Where memory lives and where a communicator works.
#ifndef MUSTER_CORE_COLLECTIVE_DEVICE_H_
#define MUSTER_CORE_COLLECTIVE_DEVICE_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {

// A value type.
struct Device {
  enum class Type { kCpu, kCuda };

  static constexpr Device Cpu() { return Device{Type::kCpu, 0}; }
  // `index` as the CUDA runtime of this process counts.
  static constexpr Device Cuda(int index) { return Device{Type::kCuda, index}; }

  Type type = Type::kCpu;
  int index = 0;  // 0 for the CPU

  friend bool operator==(const Device& a, const Device& b) {
    return a.type == b.type && a.index == b.index;
  }
  friend bool operator!=(const Device& a, const Device& b) { return !(a == b); }
  std::string ToString() const { return type == Type::kCpu ? "cpu" : absl::StrCat("cuda:", index); }
};

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_DEVICE_H_
