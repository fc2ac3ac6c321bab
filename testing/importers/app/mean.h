// A library of somebody else's that uses a group which its caller brings.
#ifndef APP_MEAN_H_
#define APP_MEAN_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "muster/core/group.h"

namespace app {

// The mean of the values of all ranks. Collective. InvalidArgument when no rank has any.
absl::StatusOr<double> MeanOverRanks(muster::Group& group, absl::Span<const double> values);

}  // namespace app

#endif  // APP_MEAN_H_
