// Where in the caller's source a group was made: messages and `LiveGroups` name it.
#ifndef MUSTER_CORE_PLATFORM_SOURCE_LOCATION_H_
#define MUSTER_CORE_PLATFORM_SOURCE_LOCATION_H_

#include <string>

namespace muster {

// C++20's std::source_location for C++17, by the built-ins that gcc >= 9 and clang >= 9 share. A
// value type.
class SourceLocation {
 public:
  // As a default argument: the place of the call.
  static constexpr SourceLocation Current(const char* file = __builtin_FILE(),
                                          int line = __builtin_LINE()) {
    return SourceLocation(file, line);
  }

  constexpr SourceLocation() = default;

  constexpr const char* file() const { return file_; }
  constexpr int line() const { return line_; }

  // "train_test.cc:31": the file's last component, so that messages are the same in every sandbox.
  std::string ToString() const;

 private:
  constexpr SourceLocation(const char* file, int line) : file_(file), line_(line) {}

  const char* file_ = "";
  int line_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_SOURCE_LOCATION_H_
