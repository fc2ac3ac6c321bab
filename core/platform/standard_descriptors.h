// For a program that was started without some of stdin, stdout and stderr, as daemons are: whatever
// it opens next would take their numbers, and what it prints would go there.
//
//   int main() {
//     muster::StandardDescriptors standard;   // before anything is opened
//     ...
#ifndef MUSTER_CORE_PLATFORM_STANDARD_DESCRIPTORS_H_
#define MUSTER_CORE_PLATFORM_STANDARD_DESCRIPTORS_H_

#include <vector>

namespace muster {

// Keeps /dev/null open at those of 0, 1 and 2 that are closed, for its own lifetime. Nothing where
// all are open, or where /dev/null cannot be opened. Made and destroyed while no other thread opens
// descriptors.
class [[nodiscard]] StandardDescriptors {
 public:
  StandardDescriptors();
  ~StandardDescriptors();
  StandardDescriptors(const StandardDescriptors&) = delete;
  StandardDescriptors& operator=(const StandardDescriptors&) = delete;

 private:
  std::vector<int> held_;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_STANDARD_DESCRIPTORS_H_
