#ifndef MUSTER_TOOLS_BAZEL_INCLUDE_PREFIX_ANSWER_H_
#define MUSTER_TOOLS_BAZEL_INCLUDE_PREFIX_ANSWER_H_

namespace muster {

// In a header, so that the coverage report can be checked for the lines of headers.
inline int Twice(int value) { return 2 * value; }

int Answer();

}  // namespace muster

#endif  // MUSTER_TOOLS_BAZEL_INCLUDE_PREFIX_ANSWER_H_
