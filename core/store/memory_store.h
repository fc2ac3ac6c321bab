// A store for ranks that are threads of one process, and for tests.
//
//   MemoryStoreServer server(MemoryStoreServer::Options{/*world_size=*/2});
//   absl::StatusOr<std::unique_ptr<MemoryStore>> store = server.Connect(info, executor);
//   server.DropSession(1);      // as if rank 1's process had died
#ifndef MUSTER_CORE_STORE_MEMORY_STORE_H_
#define MUSTER_CORE_STORE_MEMORY_STORE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/platform/executor.h"
#include "muster/core/store/client_store.h"
#include "muster/core/store/session_record.h"

namespace muster {

namespace store_internal {
class ClientCore;
class MemoryHub;
class MemoryChannel;
}  // namespace store_internal

// One rank's session. Thread-safe. It may outlive its server, then everything answers Unavailable.
class MemoryStore final : public store_internal::ClientStore {
 public:
  // Leaves, and waits for nobody: what still waits is answered with Cancelled, on the executor.
  ~MemoryStore() override;

 private:
  friend class MemoryStoreServer;
  MemoryStore(std::shared_ptr<store_internal::ClientCore> core,
              std::shared_ptr<store_internal::MemoryChannel> channel);

  std::shared_ptr<store_internal::MemoryChannel> channel_;
};

// Owns no thread: deadlines are judged by timers on the executors of those who wait, and there are
// no heartbeats. Thread-safe.
class MemoryStoreServer {
 public:
  struct Options {
    int world_size = 1;
    absl::Duration loss_grace = absl::ZeroDuration();
  };

  explicit MemoryStoreServer(const Options& options);
  // As if the server's process had died.
  ~MemoryStoreServer();
  MemoryStoreServer(const MemoryStoreServer&) = delete;
  MemoryStoreServer& operator=(const MemoryStoreServer&) = delete;

  // Opens the session of `info.rank`. `executor` runs this rank's callbacks and timers; it outlives
  // the store. Errors: InvalidArgument (world size, rank), AlreadyExists (this rank is live),
  // FailedPrecondition (this incarnation is fenced), Unavailable (stopped).
  absl::StatusOr<std::unique_ptr<MemoryStore>> Connect(const SessionInfo& info, Executor* executor);

  // What a launcher does when it has reaped a process.
  void DeclareLost(int rank, absl::string_view reason);

  // What the system does when a process dies: its connection closes, for good. The rank's own
  // requests answer Unavailable from now on.
  void DropSession(int rank, absl::string_view reason = "its connection closed");

  // Every session's requests answer Unavailable from now on. Idempotent.
  void Stop();

  std::vector<SessionRecord> Sessions() const;
  // The keys that start with `prefix`, as they stand.
  std::vector<Entry> Entries(absl::string_view prefix) const;

 private:
  std::shared_ptr<store_internal::MemoryHub> hub_;
};

}  // namespace muster

#endif  // MUSTER_CORE_STORE_MEMORY_STORE_H_
