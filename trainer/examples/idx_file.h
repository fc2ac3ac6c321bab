// Reads the idx format of the MNIST data sets, gzipped, and believes nothing that it reads.
//
// An idx file is a big-endian header (two zero bytes, 8 for "unsigned bytes", the number of
// dimensions, then each extent in 4 bytes) and the values, row by row:
// http://yann.lecun.com/exdb/mnist/.
#ifndef MUSTER_TRAINER_EXAMPLES_IDX_FILE_H_
#define MUSTER_TRAINER_EXAMPLES_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster {

struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;  // as many as the product of the shape
};

// The array of the gzip file `path`, which must have `dimensions` dimensions. Errors name the file,
// what was seen and what to do. NotFound: there is no such file; InvalidArgument: it is a device, a
// pipe or a socket, or larger than 1 GiB; DataLoss: it is no gzip file, damaged, cut short, longer
// than its header says, of another kind or of other dimensions. Takes no more memory than the file
// can fill.
absl::StatusOr<IdxArray> ReadIdxFile(const std::string& path, int dimensions);

}  // namespace muster

#endif  // MUSTER_TRAINER_EXAMPLES_IDX_FILE_H_
