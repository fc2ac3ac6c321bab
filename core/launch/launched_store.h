// What a launcher needs of the store that it serves to its ranks.
#ifndef MUSTER_CORE_LAUNCH_LAUNCHED_STORE_H_
#define MUSTER_CORE_LAUNCH_LAUNCHED_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/core/launch/job_result.h"

namespace muster {

// Thread-safe. Destroyed after the last rank has ended; its port is free then, its socket gone.
class LaunchedStore {
 public:
  virtual ~LaunchedStore() = default;

  // "127.0.0.1:41231", "unix:/tmp/muster-x7a9Qz/store"
  virtual std::string address() const = 0;

  // The rank is gone, for `reason` ("killed by signal 9"), which only a launcher knows. Ranks that
  // watch the store learn it. Declaring a rank that had left or is lost already changes nothing.
  virtual void DeclareLost(int rank, absl::string_view reason) = 0;

  // What the job's groups have recorded as the cause of their failure, the earliest first.
  virtual std::vector<FailedGroup> FailedGroups() const { return {}; }

  // What a person should know of how it is served: "the store is served on TCP, ...". Empty:
  // nothing.
  virtual std::string Notice() const { return ""; }

  // What it did not let in and a person should know of: "2 connections that did not know the job's
  // token". Empty: nothing.
  virtual std::string Refused() const { return ""; }
};

struct LaunchedStoreRequest {
  int world_size = 1;
  std::string token;   // who does not know it is refused
  std::string folder;  // that only this user can enter, and that outlives the store; "": none
  // To be called, from any thread and until the store is destroyed, with each rank of which a
  // session begins, and with each that the store itself declares `lost` ("no heartbeat for 10 s").
  // Must not be called with a lock held that DeclareLost needs.
  std::function<void(int rank, std::optional<std::string> lost)> on_session;
};

using LaunchedStoreFactory =
    std::function<absl::StatusOr<std::unique_ptr<LaunchedStore>>(LaunchedStoreRequest)>;

}  // namespace muster

#endif  // MUSTER_CORE_LAUNCH_LAUNCHED_STORE_H_
