// The options of the backend "gloo"; gloo_backend.h documents them.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_OPTIONS_H_
#define MUSTER_BACKENDS_GLOO_GLOO_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

struct GlooOptions {
  enum class AllReduce { kRing, kBcube };

  AllReduce all_reduce = AllReduce::kRing;
  int64_t segment_bytes = 1 << 20;

  // InvalidArgument for an unknown name (the error lists the known ones) and for a bad value.
  static absl::StatusOr<GlooOptions> Parse(const std::map<std::string, std::string>& options);
};

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_OPTIONS_H_
