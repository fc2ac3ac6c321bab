// What a fuzz target is: the function that libFuzzer calls, and inputs to begin with.
//
// It is linked twice: with libFuzzer (a binary that needs clang: tools/fuzz.sh), and into a test of
// the ordinary run, which replays the seeds and some thousand changes of them. The seeds are made
// from what the code sends now, so they cannot become stale.
#ifndef MUSTER_CORE_STORE_FUZZ_FUZZ_TARGET_H_
#define MUSTER_CORE_STORE_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Ends the process when something is found. 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::store_fuzz {

struct Seed {
  std::string name;  // of a file
  std::string bytes;
};

std::vector<Seed> Seeds();

}  // namespace muster::store_fuzz

#endif  // MUSTER_CORE_STORE_FUZZ_FUZZ_TARGET_H_
