// The file in which torchrun looks for the reason why a rank failed: TORCHELASTIC_ERROR_FILE.
//
// torchrun gives each rank the path of one of its own. When ranks have failed it reads those that
// are there, and shows the one with the earliest time as the root cause. So only a rank whose own
// error the cause is may write: what it did to the others would compete with it.
#ifndef MUSTER_CORE_OBSERVE_ERROR_FILE_H_
#define MUSTER_CORE_OBSERVE_ERROR_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Writes `error`, which came at `when`, in torchelastic's form:
//
//   {"message": {"message": TEXT, "extraInfo": {"py_callstack": TEXT, "timestamp": "1764540000"}}}
//
// torchrun prints py_callstack, so that is the text too. Whole or not at all, whoever reads
// meanwhile: by a temporary file beside it. The first error is the one that counts: what stands at
// `path` already stays, and the result is OK. Else errno's code, with the path.
absl::Status WriteErrorFile(const std::string& path, absl::string_view error, absl::Time when);

}  // namespace muster

#endif  // MUSTER_CORE_OBSERVE_ERROR_FILE_H_
