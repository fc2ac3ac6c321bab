#include "muster/core/store/memory_store.h"

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/store/client_core.h"
#include "muster/core/store/messages.h"
#include "muster/core/store/store_engine.h"

namespace muster {
namespace store_internal {
namespace {

absl::Status Lost(absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat("the store (of this process) was lost: ", reason));
}

}  // namespace

// A session's way into the hub and back.
class MemoryChannel final : public ClientCore::Channel, public StoreEngine::Sink {
 public:
  MemoryChannel(std::shared_ptr<MemoryHub> hub, std::weak_ptr<ClientCore> core, Executor* executor)
      : hub_(std::move(hub)), core_(std::move(core)), executor_(executor) {}

  void Send(Request request) override;

  // From the engine, under the hub's lock: only posts.
  void Send(const Response& response) override {
    executor_->Post([core = core_, response = response]() mutable {
      if (auto alive = core.lock()) alive->Deliver(std::move(response));
    });
  }

  const std::shared_ptr<MemoryHub>& hub() const { return hub_; }
  Executor* executor() const { return executor_; }

  void Fail(const absl::Status& status) {
    if (auto alive = core_.lock()) alive->Fail(status);
  }

 private:
  friend class MemoryHub;

  const std::shared_ptr<MemoryHub> hub_;
  const std::weak_ptr<ClientCore> core_;
  Executor* const executor_;
  // Guarded by the hub's lock.
  StoreEngine::SessionId session_ = 0;  // 0: not connected
  absl::Time armed_ = absl::InfiniteFuture();
  Executor::TimerId timer_ = 0;
};

class MemoryHub : public std::enable_shared_from_this<MemoryHub> {
 public:
  explicit MemoryHub(const StoreEngine::Options& options) : engine_(options) {}

  absl::Status Connect(const SessionInfo& info, const std::shared_ptr<MemoryChannel>& channel) {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return Lost("it was stopped");
    const absl::StatusOr<StoreEngine::SessionId> session =
        engine_.Open(info, absl::InfiniteDuration(), channel.get(), channel->executor()->Now());
    if (!session.ok()) return session.status();
    channel->session_ = *session;
    channels_.emplace(*session, channel);
    Arm(*channel);
    return absl::OkStatus();
  }

  void Handle(MemoryChannel& channel, const Request& request) {
    absl::MutexLock lock(&mutex_);
    if (channel.session_ == 0) return;  // failed already
    engine_.Handle(channel.session_, request, channel.executor()->Now());
    Arm(channel);
  }

  void Leave(MemoryChannel& channel) {
    std::shared_ptr<MemoryChannel> removed;
    absl::MutexLock lock(&mutex_);
    if (channel.session_ == 0) return;
    Request request;
    request.type = Request::Type::kLeave;
    engine_.Handle(channel.session_, request, channel.executor()->Now());
    removed = Disconnect(channel, "");
  }

  void Drop(int rank, absl::string_view reason) {
    std::shared_ptr<MemoryChannel> dropped;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = channels_.find(engine_.LiveSession(rank));
      if (found == channels_.end()) return;
      dropped = Disconnect(*found->second, reason);
      for (const auto& [session, channel] : channels_) Arm(*channel);
    }
    dropped->Fail(Lost(reason));
  }

  void DeclareLost(int rank, absl::string_view reason) {
    absl::MutexLock lock(&mutex_);
    engine_.DeclareLost(rank, reason);
  }

  void Stop() {
    std::map<StoreEngine::SessionId, std::shared_ptr<MemoryChannel>> channels;
    {
      absl::MutexLock lock(&mutex_);
      stopped_ = true;
      channels.swap(channels_);
      // Nobody hears of these ends: as after the death of a server.
      for (const auto& [session, channel] : channels) Detach(*channel);
    }
    for (const auto& [session, channel] : channels) channel->Fail(Lost("it was stopped"));
  }

  std::vector<SessionRecord> Sessions() {
    absl::MutexLock lock(&mutex_);
    return engine_.Records();
  }
  std::vector<Entry> Entries(absl::string_view prefix) {
    absl::MutexLock lock(&mutex_);
    return engine_.Entries(prefix);
  }

 private:
  // The caller lets go of what is returned after it has released the lock.
  std::shared_ptr<MemoryChannel> Disconnect(MemoryChannel& channel, absl::string_view reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const StoreEngine::SessionId session = channel.session_;
    Detach(channel);
    engine_.Disconnect(session, reason, channel.executor()->Now());
    const auto found = channels_.find(session);
    std::shared_ptr<MemoryChannel> removed = std::move(found->second);
    channels_.erase(found);
    return removed;
  }

  void Detach(MemoryChannel& channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    channel.session_ = 0;
    if (channel.armed_ == absl::InfiniteFuture()) return;
    channel.executor()->Cancel(channel.timer_);
    channel.armed_ = absl::InfiniteFuture();
  }

  // Everyone who waits has a timer on an executor of its own, so whose executor stops or is
  // destroyed matters to nobody else.
  void Arm(MemoryChannel& channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time next = engine_.NextTick();
    if (channel.session_ == 0 || next >= channel.armed_) return;
    if (channel.armed_ != absl::InfiniteFuture()) channel.executor()->Cancel(channel.timer_);
    channel.armed_ = next;
    channel.timer_ = channel.executor()->PostAt(
        next, [hub = weak_from_this(),
               weak = std::weak_ptr<MemoryChannel>(channels_.at(channel.session_))] {
          const auto hub_alive = hub.lock();
          const auto channel_alive = weak.lock();
          if (hub_alive != nullptr && channel_alive != nullptr) hub_alive->OnTimer(*channel_alive);
        });
  }

  void OnTimer(MemoryChannel& channel) {
    absl::MutexLock lock(&mutex_);
    if (channel.session_ == 0) return;
    channel.armed_ = absl::InfiniteFuture();
    engine_.Tick(channel.executor()->Now());
    Arm(channel);
  }

  absl::Mutex mutex_;
  StoreEngine engine_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<StoreEngine::SessionId, std::shared_ptr<MemoryChannel>> channels_
      ABSL_GUARDED_BY(mutex_);
};

void MemoryChannel::Send(Request request) { hub_->Handle(*this, request); }

}  // namespace store_internal

using store_internal::ClientCore;
using store_internal::MemoryChannel;
using store_internal::MemoryHub;
using store_internal::StoreEngine;

MemoryStore::MemoryStore(std::shared_ptr<ClientCore> core, std::shared_ptr<MemoryChannel> channel)
    : ClientStore(std::move(core)), channel_(std::move(channel)) {}

MemoryStore::~MemoryStore() {
  channel_->hub()->Leave(*channel_);
  core().Shutdown(absl::CancelledError("the store's client was destroyed"));
}

MemoryStoreServer::MemoryStoreServer(const Options& options) {
  StoreEngine::Options engine;
  engine.world_size = options.world_size;
  engine.loss_grace = options.loss_grace;
  hub_ = std::make_shared<MemoryHub>(engine);
}

MemoryStoreServer::~MemoryStoreServer() { Stop(); }

absl::StatusOr<std::unique_ptr<MemoryStore>> MemoryStoreServer::Connect(const SessionInfo& info,
                                                                        Executor* executor) {
  auto core = std::make_shared<ClientCore>(executor);
  auto channel = std::make_shared<MemoryChannel>(hub_, core, executor);
  core->SetChannel(channel);
  if (absl::Status status = hub_->Connect(info, channel); !status.ok()) return status;
  return std::unique_ptr<MemoryStore>(new MemoryStore(std::move(core), std::move(channel)));
}

void MemoryStoreServer::DeclareLost(int rank, absl::string_view reason) {
  hub_->DeclareLost(rank, reason);
}

void MemoryStoreServer::DropSession(int rank, absl::string_view reason) {
  hub_->Drop(rank, reason);
}

void MemoryStoreServer::Stop() { hub_->Stop(); }

std::vector<SessionRecord> MemoryStoreServer::Sessions() const { return hub_->Sessions(); }

std::vector<Entry> MemoryStoreServer::Entries(absl::string_view prefix) const {
  return hub_->Entries(prefix);
}

}  // namespace muster
