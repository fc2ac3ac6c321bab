#include "muster/tools/bazel/include_prefix/answer.h"

namespace muster {

int Answer() { return Twice(21); }

}  // namespace muster
