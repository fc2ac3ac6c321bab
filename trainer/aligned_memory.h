// A block of memory that starts on a cache line, so that vector loads of what lies in it are
// aligned.
#ifndef MUSTER_TRAINER_ALIGNED_MEMORY_H_
#define MUSTER_TRAINER_ALIGNED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace muster {

// Zeros at first. Move-only; a moved block stays where it is.
class AlignedMemory {
 public:
  static constexpr int64_t kAlignment = 64;

  explicit AlignedMemory(int64_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(
            ::operator new(static_cast<size_t>(bytes), std::align_val_t(kAlignment)))) {
    std::memset(data_.get(), 0, static_cast<size_t>(bytes));
  }

  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

  // `bytes` rounded up to the next multiple of the alignment.
  static constexpr int64_t RoundUp(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  struct Delete {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t(kAlignment));
    }
  };

  int64_t bytes_;
  std::unique_ptr<std::byte, Delete> data_;
};

}  // namespace muster

#endif  // MUSTER_TRAINER_ALIGNED_MEMORY_H_
