#include "muster/backends/gloo/gloo_mesh.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gloo/common/error.h"
#include "gloo/context.h"
#include "gloo/transport/tcp/address.h"
#include "gloo/transport/tcp/attr.h"
#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/pair.h"
#include "muster/backends/gloo/gloo_calls.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/cancellation.h"
#include "muster/core/platform/describe_ranks.h"
#include "muster/core/platform/fork_guard.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {
namespace {

// gloo's own timeouts bound each wait; ours, the deadline, bounds all together. So gloo's is far
// away.
constexpr std::chrono::hours kNoTimeout(24 * 365);

// When an operation that waits first looks around, and how often from then on. Long enough that
// ranks in step never do; half the time that it has at most.
constexpr std::chrono::milliseconds kFirstLook(500);
constexpr std::chrono::milliseconds kNextLook(100);

// "[.../gloo/transport/tcp/pair.cc:598] Connection closed by peer ..." without the place in gloo.
absl::string_view WithoutPlace(absl::string_view what) {
  if (what.empty() || what[0] != '[') return what;
  const size_t end = what.find("] ");
  return end == absl::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace

class GlooMesh::Context : public ::gloo::Context {
 public:
  Context(int own_rank, int ranks, std::shared_ptr<::gloo::transport::Device> device,
          std::shared_ptr<::gloo::transport::Context> transport)
      : ::gloo::Context(own_rank, ranks) {
    device_ = std::move(device);
    transportContext_ = std::move(transport);
    setTimeout(kNoTimeout);
  }
};

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(const ConnectContext& context) {
  std::unique_ptr<GlooMesh> mesh(new GlooMesh(context.rank, context.size));
  try {
    mesh->Open(context.bind_address);
  } catch (const std::exception& e) {
    return absl::UnavailableError(absl::StrCat("cannot open a gloo device on ",
                                               context.bind_address, ": ", WithoutPlace(e.what())));
  }
  // From here on a cancellation ends whatever waits. It ends before the mesh, on every way out.
  Cancellation::Registration registration;
  if (context.cancellation != nullptr) {
    registration = context.cancellation->OnCancel([&mesh](const absl::Status&) { mesh->Cut(); });
  }
  const auto cause = [&context](absl::Status otherwise) {
    if (context.cancellation == nullptr || !context.cancellation->cancelled()) return otherwise;
    return context.cancellation->status();
  };

  mesh->SetDeadline(context.deadline);
  const absl::StatusOr<std::string> own = mesh->FirstAddress();
  if (!own.ok()) return own.status();
  absl::StatusOr<std::vector<std::string>> addresses =
      context.store->Exchange("gloo", *own, context.deadline);
  if (!addresses.ok()) return addresses.status();
  for (size_t r = 0; r < addresses->size(); ++r) {
    const size_t bytes = (*addresses)[r].size();
    if (bytes != own->size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", r, " published ", bytes,
                       " bytes of addresses, unlike this rank: do all ranks run one version?"));
    }
  }
  try {
    mesh->ConnectPairs(*addresses);
  } catch (const std::exception& e) {
    return cause(mesh->Explain(e.what(), context.deadline));
  }
  absl::Status all = context.store->Exchange("gloo/connected", "", context.deadline).status();
  if (!all.ok()) return all;
  registration.Reset();
  if (absl::Status status = cause(absl::OkStatus()); !status.ok()) return status;
  return mesh;
}

GlooMesh::~GlooMesh() {
  // Before the descriptors are closed and their numbers become somebody else's.
  guards_.clear();
  // The loop first: a connection that is accepted late would be handed to a pair that is gone.
  if (device_ != nullptr) device_->shutdown();
  context_.reset();
  transport_.reset();
  device_.reset();
}

void GlooMesh::Open(const std::string& bind_address) {
  ::gloo::transport::tcp::attr attr(bind_address.c_str());
  device_ = std::make_shared<::gloo::transport::tcp::Device>(
      ::gloo::transport::tcp::CreateDeviceAttr(attr), /*lazyInit=*/false);
  device_->setPrompt();
  for (const int descriptor : device_->descriptors()) guards_.emplace_back(descriptor);
  transport_ = std::static_pointer_cast<::gloo::transport::tcp::Context>(
      device_->createContext(rank_, size_));
  transport_->setTimeout(kNoTimeout);
  transport_->setNoteHandler(
      [this](int peer, const GlooCall::Note& note) { calls_.Heard(peer, note); });
  transport_->setLongWait([this] { return LookAround(); });
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) transport_->createPair(peer);
  }
  context_ = std::make_shared<Context>(rank_, size_, device_, transport_);
}

// All pairs of a device listen at one address and differ by a number, which gloo counts up in the
// order in which they were made: that of the ranks. So what a rank publishes does not grow with
// their number.
::gloo::transport::tcp::Address GlooMesh::AddressFor(const Address& first, int owner, int peer) {
  return Address(first.getSockaddr(), first.getSeq() + (peer < owner ? peer : peer - 1));
}

absl::StatusOr<std::string> GlooMesh::FirstAddress() const {
  const Address first(transport_->getPair(rank_ == 0 ? 1 : 0)->address().bytes());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (transport_->getPair(peer)->address().bytes() != AddressFor(first, rank_, peer).bytes()) {
      return absl::InternalError("gloo does not number its connections in the order of the ranks");
    }
  }
  const std::vector<char> bytes = first.bytes();
  return std::string(bytes.begin(), bytes.end());
}

void GlooMesh::ConnectPairs(const std::vector<std::string>& addresses) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const std::string& of_peer = addresses[static_cast<size_t>(peer)];
    const Address first(std::vector<char>(of_peer.begin(), of_peer.end()));
    transport_->getPair(peer)->connect(AddressFor(first, peer, rank_).bytes());
    guards_.emplace_back(DescriptorOf(peer));
  }
}

int GlooMesh::DescriptorOf(int peer) const {
  return static_cast<::gloo::transport::tcp::Pair*>(transport_->getPair(peer).get())->descriptor();
}

void GlooMesh::SetDeadline(absl::Time deadline) {
  awaited_.clear();
  told_ = false;
  deadline_ = deadline;
  const auto now = std::chrono::steady_clock::now();
  const absl::Duration left = deadline - MonotonicNow();
  transport_->setDeadline(left > absl::FromChrono(kNoTimeout)
                              ? std::chrono::steady_clock::time_point::max()
                              : now + absl::ToChronoNanoseconds(left));
  tell_at_ = now + absl::ToChronoNanoseconds(std::min(absl::FromChrono(kFirstLook), left / 2));
  // A peer that has told what it called may have little time left.
  transport_->setLongWaitAt(calls_.pending() ? now : tell_at_);
}

std::chrono::steady_clock::time_point GlooMesh::LookAround() {
  const absl::Status verdict = calls_.Verdict();
  const auto now = std::chrono::steady_clock::now();
  // A look before its time tells only what a peer has to know. If every note were answered, one
  // rank that is late once would have all ranks write notes from then on.
  const bool tell = now >= tell_at_ || !verdict.ok() || calls_.IsBehind();
  if (tell && !told_) {
    told_ = true;
    for (const auto& [peer, note] : calls_.ToTell()) {
      try {
        static_cast<::gloo::transport::tcp::Pair*>(transport_->getPair(peer).get())->sendNote(note);
      } catch (const ::gloo::IoException&) {
        // A connection that has ended: what waits for it finds out, and what does not need not.
        continue;
      }
    }
  }
  if (!verdict.ok()) throw ::gloo::IoException(std::string(verdict.message()));
  return now < tell_at_ ? tell_at_ : now + kNextLook;
}

void GlooMesh::Cut() noexcept {
  // All peers learn at once, before any connection waits for its turn of the event loop. The
  // descriptors stay open as long as their pairs live.
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (const int descriptor = DescriptorOf(peer); descriptor >= 0) {
      ::shutdown(descriptor, SHUT_RDWR);
    }
  }
  try {
    transport_->signalException("aborted");
  } catch (const std::exception& e) {
    // A connection that cannot be taken out of the event loop: the destructor ends the loop.
    LOG(WARNING) << "gloo could not cut all connections at once: " << WithoutPlace(e.what());
  }
}

bool GlooMesh::overdue() const { return MonotonicNow() >= deadline_; }

absl::Status GlooMesh::Explain(const std::string& what, absl::Time deadline) {
  // First: whoever found out before us has cut the connections.
  if (absl::Status verdict = calls_.Verdict(); !verdict.ok()) return verdict;
  // What gloo says when more bytes come than there is room for.
  if (absl::StrContains(what, "distributed collective mismatch")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the ranks called operations that do not fit: rank ", rank_, " called ",
                     calls_.Current(), ", and a peer sent more bytes than that takes"));
  }
  std::vector<int> lost;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !transport_->getPair(peer)->isConnected()) lost.push_back(peer);
  }
  if (MonotonicNow() >= deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline passed while this rank waited for ",
                     awaited_.empty() ? "its peers" : DescribeRanks(awaited_)));
  }
  if (lost.empty()) return absl::UnavailableError(absl::StrCat("gloo: ", WithoutPlace(what)));
  return absl::UnavailableError(
      absl::StrCat("lost contact with ", DescribeRanks(lost), ": ", WithoutPlace(what)));
}

Holdings GlooMesh::Held() const {
  Holdings held;
  // The connections; of the event loop an epoll and a pipe; the listening socket.
  held.file_descriptors = (size_ - 1) + 3 + 1;
  held.threads = 1;
  return held;
}

}  // namespace muster
