// Who this process is in its job, and where the job's store is.
#ifndef MUSTER_CORE_RENDEZVOUS_WORLD_H_
#define MUSTER_CORE_RENDEZVOUS_WORLD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/core/platform/environment.h"

namespace muster {

// A value type. Valid as `Validate` says; every function below returns only valid ones.
struct World {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;

  // "127.0.0.1:41231", "unix:/path". Empty with size 1: no store is needed then and a memory store
  // serves.
  std::string store_address;
  // Rank 0 of a job without a launcher serves the store itself, on this address; everywhere else
  // empty.
  std::string serve_address;
  // The job's shared secret; a store refuses who does not know it. From the launcher, never
  // printed.
  std::string token;

  // Where torchrun looks for this rank's error ("": nowhere), which is written there when it
  // becomes a group's cause: TORCHELASTIC_ERROR_FILE, whoever the launcher is.
  std::string error_file;

  // Who said so, for messages: "muster run", "environment (RANK, WORLD_SIZE, ...)", or what the
  // maker of a World of their own writes here.
  std::string launcher;

  absl::Status Validate() const;
};

// From the environment, in this fixed order: the variables of `muster run` (MUSTER_RANK,
// MUSTER_WORLD_SIZE, MUSTER_LOCAL_RANK, MUSTER_LOCAL_WORLD_SIZE, MUSTER_STORE, MUSTER_TOKEN_FILE);
// then RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK and LOCAL_WORLD_SIZE; neither: a
// world of one rank. When MASTER_ADDR is a loopback address all ranks are on this host, so the last
// two may be left out; when it is not, they are required, and so is MUSTER_TOKEN_FILE. What was
// overridden is logged. Errors (InvalidArgument) name the variable, the value seen and the form
// expected; under torchrun's agent store, mpirun or srun: Unimplemented.
absl::StatusOr<World> WorldFromEnvironment(const Environment& environment);

}  // namespace muster

#endif  // MUSTER_CORE_RENDEZVOUS_WORLD_H_
