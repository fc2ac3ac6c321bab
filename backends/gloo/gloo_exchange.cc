#include "muster/backends/gloo/gloo_exchange.h"

#include <memory>
#include <set>
#include <vector>

#include "gloo/common/error.h"
#include "gloo/transport/unbound_buffer.h"
#include "muster/backends/gloo/gloo_mesh.h"

namespace muster {
namespace {

template <class Wait>
bool Done(const Wait& wait) {
  try {
    wait();
    return true;
  } catch (const ::gloo::IoException&) {
    return false;
  }
}

}  // namespace

void GlooExchange(GlooMesh& mesh, const std::vector<GlooPiece>& sends,
                  const std::vector<GlooPiece>& receives) {
  using ::gloo::transport::UnboundBuffer;
  // On every way out a buffer's destructor waits until gloo's thread has let go of it.
  std::vector<std::unique_ptr<UnboundBuffer>> receiving;
  std::vector<std::unique_ptr<UnboundBuffer>> sending;
  for (const GlooPiece& piece : receives) {
    receiving.push_back(
        mesh.context()->createUnboundBuffer(piece.data, static_cast<size_t>(piece.bytes)));
    receiving.back()->recv(piece.peer, piece.slot);
  }
  for (const GlooPiece& piece : sends) {
    sending.push_back(
        mesh.context()->createUnboundBuffer(piece.data, static_cast<size_t>(piece.bytes)));
    sending.back()->send(piece.peer, piece.slot);
  }
  size_t received = 0;
  size_t sent = 0;
  try {
    for (; received < receiving.size(); ++received) receiving[received]->waitRecv();
    for (; sent < sending.size(); ++sent) sending[sent]->waitSend();
  } catch (const ::gloo::IoException&) {
    if (!mesh.overdue()) throw;
    // From here on a wait ends at once: it tells what had come in time.
    std::set<int> awaited;
    for (; received < receiving.size(); ++received) {
      if (!Done([&] { receiving[received]->waitRecv(); })) awaited.insert(receives[received].peer);
    }
    for (; sent < sending.size(); ++sent) {
      if (!Done([&] { sending[sent]->waitSend(); })) awaited.insert(sends[sent].peer);
    }
    mesh.SetAwaited({awaited.begin(), awaited.end()});
    throw;
  }
}

}  // namespace muster
