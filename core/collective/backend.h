// A way to connect ranks, by name.
//
// Write your own: a class with Connect, a Communicator, `MUSTER_REGISTER_BACKEND("mine", ...)`, a
// cc_library with alwayslink. The reference backend (backends/reference) is the example.
#ifndef MUSTER_CORE_COLLECTIVE_BACKEND_H_
#define MUSTER_CORE_COLLECTIVE_BACKEND_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/collective/communicator.h"
#include "muster/core/platform/cancellation.h"

namespace muster {

// Small values that the ranks of one generation exchange while they connect (addresses, unique
// ids). Blocking, thread-safe. Keys are this generation's alone and are gone when its set-up ended.
// Errors: DeadlineExceeded naming the ranks or keys that are missing; the cause when the set-up was
// cancelled.
class ConnectStore {
 public:
  virtual ~ConnectStore() = default;
  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // Waits until some rank has set `key`.
  virtual absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) = 0;
  // Every rank gives a value and gets those of all ranks, in the order of ranks. Collective; `key`
  // distinguishes two exchanges.
  virtual absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key,
                                                            absl::string_view value,
                                                            absl::Time deadline) = 0;
};

// What Connect gets. Pointers outlive the Connect call, and no longer.
struct ConnectContext {
  int rank = 0;
  int size = 1;
  std::string group;  // "train/1": for messages, and unique among what is alive
  Device device;
  std::map<std::string, std::string> options;  // GroupSpec::backend_options
  std::string bind_address =
      "127.0.0.1";  // this rank's address on the network that reaches its peers
  ConnectStore* store = nullptr;
  absl::Time deadline = absl::InfiniteFuture();
  // Cancelled when another rank failed or somebody aborts: Connect then returns the cause at once.
  // Register the wake-up before anything that blocks.
  Cancellation* cancellation = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::string_view name() const = 0;
  virtual Capabilities capabilities() const = 0;

  // OK when this process could connect on `device` now; else the reason with what was looked for
  // where (Unavailable, or InvalidArgument for options that it does not know: the error lists those
  // that it knows). Cheap; opens nothing that stays open.
  virtual absl::Status Check(Device device,
                             const std::map<std::string, std::string>& options) const = 0;

  // Builds a communicator with all `size` ranks. Collective, blocking, until `context.deadline`.
  // All or nothing: on an error nothing is left behind on this rank, and the peers find out through
  // the group. Several may run at once on different threads.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Connect(const ConnectContext& context) = 0;
};

// Backends by name. The process's own is Global(); a test makes another.
class BackendRegistry {
 public:
  static BackendRegistry& Global();

  // A second backend of one name is remembered as an error that Find returns: it names both places,
  // and neither backend is used.
  void Register(absl::string_view name, std::unique_ptr<Backend> backend, absl::string_view file,
                int line);

  // NotFound lists those that are linked in and how to link one ("add @muster//backends:gloo to the
  // deps of the binary").
  absl::StatusOr<Backend*> Find(absl::string_view name) const;

  // Sorted.
  std::vector<std::string> Names() const;

  BackendRegistry();
  ~BackendRegistry();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace backend_internal {
struct Registrar {
  Registrar(absl::string_view name, std::unique_ptr<Backend> backend, absl::string_view file,
            int line) {
    BackendRegistry::Global().Register(name, std::move(backend), file, line);
  }
};
}  // namespace backend_internal

// At namespace scope of a .cc file whose library has alwayslink = True.
#define MUSTER_REGISTER_BACKEND(name, ...) \
  MUSTER_REGISTER_BACKEND_AT_(__COUNTER__, name, __VA_ARGS__)
#define MUSTER_REGISTER_BACKEND_AT_(id, name, ...) \
  MUSTER_REGISTER_BACKEND_ID_(id, name, __VA_ARGS__)
#define MUSTER_REGISTER_BACKEND_ID_(id, name, ...)                                  \
  static const ::muster::backend_internal::Registrar muster_backend_registrar_##id( \
      name, std::make_unique<__VA_ARGS__>(), __FILE__, __LINE__)

}  // namespace muster

#endif  // MUSTER_CORE_COLLECTIVE_BACKEND_H_
