// Messages over gloo's transport that are no collective of gloo's.
#ifndef MUSTER_BACKENDS_GLOO_GLOO_EXCHANGE_H_
#define MUSTER_BACKENDS_GLOO_GLOO_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "muster/backends/gloo/gloo_mesh.h"

namespace muster {

// Bytes that go to or come from one peer: to where the same slot is received.
struct GlooPiece {
  int peer;
  uint64_t slot;
  void* data;  // only read when it is sent
  int64_t bytes;
};

// All pieces move together. Throws what gloo does.
void GlooExchange(GlooMesh& mesh, const std::vector<GlooPiece>& sends,
                  const std::vector<GlooPiece>& receives);

}  // namespace muster

#endif  // MUSTER_BACKENDS_GLOO_GLOO_EXCHANGE_H_
