#include "muster/core/rendezvous/world.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/platform/seen.h"

namespace muster {
namespace {

// Far above any job; it keeps a mistyped number from becoming an allocation.
constexpr int kMaxWorldSize = 1 << 20;
constexpr int kMaxPort = 65535;
constexpr size_t kMaxTokenBytes = 4096;

constexpr absl::string_view kMusterRun = "muster run";
constexpr absl::string_view kStandard = "environment (RANK, WORLD_SIZE, ...)";

// "host:port" that somebody can be reached at.
bool IsReachable(absl::string_view text) {
  const std::optional<Endpoint> endpoint = ParseEndpoint(text);
  return endpoint.has_value() && endpoint->port != 0;
}

// What the store's clients are told.
bool IsStoreAddress(absl::string_view text) {
  return IsReachable(text) || ParseUnixAddress(text).has_value();
}

class Reader {
 public:
  Reader(const Environment& environment, absl::string_view set_by)
      : environment_(environment), set_by_(set_by) {}

  absl::StatusOr<std::string> Text(absl::string_view name, absl::string_view form) const {
    std::optional<std::string> value = environment_.Get(name);
    if (!value.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is not set, though ", set_by_, " is: expected ", form));
    }
    return *std::move(value);
  }

  absl::StatusOr<int> Size(absl::string_view name) const {
    return Count(name, absl::StrCat("the number of ranks, from 1 to ", kMaxWorldSize),
                 kMaxWorldSize);
  }

  // One of 0..size-1, where `size_name` says how many there are.
  absl::StatusOr<int> Rank(absl::string_view name, absl::string_view size_name, int size) const {
    const std::string form =
        absl::StrCat("a whole number from 0 to ", size - 1, ", since ", size_name, " is ", size);
    absl::StatusOr<std::string> text = Text(name, form);
    if (!text.ok()) return text.status();
    const std::optional<int> value = ParseDigits(*text, kMaxWorldSize);
    if (!value.has_value() || *value >= size) return Bad(name, *text, form);
    return *value;
  }

  // A number of ranks on this host: at most `size`.
  absl::StatusOr<int> LocalSize(absl::string_view name, absl::string_view size_name,
                                int size) const {
    return Count(name,
                 absl::StrCat("the number of ranks on this host, from 1 to ", size, ", since ",
                              size_name, " is ", size),
                 size);
  }

  static absl::Status Bad(absl::string_view name, absl::string_view value, absl::string_view form) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", Seen(value), ": expected ", form));
  }

 private:
  absl::StatusOr<int> Count(absl::string_view name, absl::string_view form, int most) const {
    absl::StatusOr<std::string> text = Text(name, form);
    if (!text.ok()) return text.status();
    const std::optional<int> value = ParseDigits(*text, most);
    if (!value.has_value() || *value == 0) return Bad(name, *text, form);
    return *value;
  }

  const Environment& environment_;
  const absl::string_view set_by_;
};

// The first of `names` that is set, or "".
absl::string_view FirstSet(const Environment& environment,
                           std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    if (environment.Get(name).has_value()) return name;
  }
  return "";
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  constexpr absl::string_view kName = "MUSTER_TOKEN_FILE";
  constexpr absl::string_view kForm =
      "a file of this user alone (mode 0600) with the job's secret, 1 to 4096 printable characters "
      "on one line";
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(kName, " is ", Seen(path), ", ", why, ": expected ", kForm));
  };
  // O_NONBLOCK: opening a pipe by mistake must not wait for its writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return bad(absl::StrCat("which cannot be opened (", strerror(errno), ")"));
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat info = {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return bad("which is not a regular file");
  if ((info.st_mode & 0077) != 0) {
    return bad(absl::StrFormat("which others may use (mode %04o; chmod 600 keeps them out)",
                               info.st_mode & 07777));
  }
  std::string text(kMaxTokenBytes + 2, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd, &text[size], text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return bad(absl::StrCat("which cannot be read (", strerror(errno), ")"));
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  text.resize(size);
  if (absl::EndsWith(text, "\n")) text.pop_back();
  if (text.empty()) return bad("which is empty");
  if (text.size() > kMaxTokenBytes) return bad("which is longer");
  for (const char c : text) {
    // The content itself is a secret and stays out of the message.
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return bad("which holds a space or an unprintable character");
    }
  }
  return text;
}

// The variables of another launcher that say something else than what was taken: worth a line,
// since it is often a leftover.
void LogOverridden(const Environment& environment, const World& world) {
  std::vector<std::string> overridden;
  const std::initializer_list<std::pair<absl::string_view, int>> taken = {
      {"RANK", world.rank},
      {"WORLD_SIZE", world.size},
      {"LOCAL_RANK", world.local_rank},
      {"LOCAL_WORLD_SIZE", world.local_size}};
  for (const auto& [name, value] : taken) {
    const std::optional<std::string> other = environment.Get(name);
    if (other.has_value() && *other != absl::StrCat(value)) {
      overridden.push_back(absl::StrCat(name, "=", Seen(*other), " (taken: ", value, ")"));
    }
  }
  if (overridden.empty()) return;
  LOG(WARNING) << "rank " << world.rank << " of " << world.size << " by the variables of "
               << world.launcher << ", which override " << absl::StrJoin(overridden, ", ");
}

absl::StatusOr<World> FromMusterRun(const Environment& environment, absl::string_view set_by) {
  const Reader reader(environment, set_by);
  World world;
  world.launcher = std::string(kMusterRun);
  absl::StatusOr<int> size = reader.Size("MUSTER_WORLD_SIZE");
  if (!size.ok()) return size.status();
  world.size = *size;
  absl::StatusOr<int> rank = reader.Rank("MUSTER_RANK", "MUSTER_WORLD_SIZE", world.size);
  if (!rank.ok()) return rank.status();
  world.rank = *rank;
  absl::StatusOr<int> local_size =
      reader.LocalSize("MUSTER_LOCAL_WORLD_SIZE", "MUSTER_WORLD_SIZE", world.size);
  if (!local_size.ok()) return local_size.status();
  world.local_size = *local_size;
  absl::StatusOr<int> local_rank =
      reader.Rank("MUSTER_LOCAL_RANK", "MUSTER_LOCAL_WORLD_SIZE", world.local_size);
  if (!local_rank.ok()) return local_rank.status();
  world.local_rank = *local_rank;

  if (world.size > 1) {
    constexpr absl::string_view kForm =
        "the store's address as host:port, such as 127.0.0.1:41231, or unix:/path";
    absl::StatusOr<std::string> store = reader.Text("MUSTER_STORE", kForm);
    if (!store.ok()) return store.status();
    if (!IsStoreAddress(*store)) return Reader::Bad("MUSTER_STORE", *store, kForm);
    world.store_address = *std::move(store);
    absl::StatusOr<std::string> token_file =
        reader.Text("MUSTER_TOKEN_FILE", "a file that holds the job's secret");
    if (!token_file.ok()) return token_file.status();
    absl::StatusOr<std::string> token = ReadToken(*token_file);
    if (!token.ok()) return token.status();
    world.token = *std::move(token);
  }
  LogOverridden(environment, world);
  return world;
}

// torchrun's agent listens on MASTER_PORT itself, unless it says that it does not.
absl::Status RefuseAgentStore(const Environment& environment) {
  const std::optional<std::string> agent_store = environment.Get("TORCHELASTIC_USE_AGENT_STORE");
  const std::optional<std::string> run_id = environment.Get("TORCHELASTIC_RUN_ID");
  if (agent_store == "False" || (!agent_store.has_value() && !run_id.has_value())) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      agent_store.has_value() ? absl::StrCat("TORCHELASTIC_USE_AGENT_STORE is ", Seen(*agent_store))
                              : absl::StrCat("TORCHELASTIC_RUN_ID is ", Seen(*run_id)),
      ": torchrun's agent holds MASTER_PORT (", environment.Get("MASTER_PORT").value_or("not set"),
      ") itself, so that rank 0 cannot serve the store there; start the ranks with `muster run -n "
      "N -- program`, or with a launcher "
      "that sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and a free "
      "MASTER_PORT"));
}

// One of several processes that a launcher of another kind started would otherwise be a job of its
// own, in silence. These variables are set for such processes alone (SLURM_NTASKS is not).
absl::Status RefuseOtherLaunchers(const Environment& environment) {
  const std::initializer_list<std::pair<absl::string_view, absl::string_view>> launchers = {
      {"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
      {"PMI_SIZE", "an MPI launcher"},
      {"SLURM_STEP_NUM_TASKS", "srun"}};
  for (const auto& [name, launcher] : launchers) {
    const std::optional<std::string> text = environment.Get(name);
    if (!text.has_value() || ParseDigits(*text, kMaxWorldSize).value_or(0) <= 1) continue;
    return absl::UnimplementedError(absl::StrCat(
        name, " is ", Seen(*text), " and RANK is not set: ", launcher,
        " started this process as "
        "one of several, and Muster does not read its variables yet; start the ranks with `muster "
        "run -n N -- program`, or set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR "
        "and MASTER_PORT for each (RANK=0 WORLD_SIZE=1 makes each a job of its own)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<World> FromStandardVariables(const Environment& environment,
                                            absl::string_view set_by) {
  const Reader reader(environment, set_by);
  World world;
  world.launcher = std::string(kStandard);
  absl::StatusOr<int> size = reader.Size("WORLD_SIZE");
  if (!size.ok()) return size.status();
  world.size = *size;
  absl::StatusOr<int> rank = reader.Rank("RANK", "WORLD_SIZE", world.size);
  if (!rank.ok()) return rank.status();
  world.rank = *rank;

  std::string host;
  if (world.size > 1) {
    // Before the rest: whatever else is wrong, this would be next.
    if (absl::Status refused = RefuseAgentStore(environment); !refused.ok()) return refused;
    constexpr absl::string_view kHostForm = "the name or address of rank 0's host";
    absl::StatusOr<std::string> address = reader.Text("MASTER_ADDR", kHostForm);
    if (!address.ok()) return address.status();
    if (!IsHost(*address)) return Reader::Bad("MASTER_ADDR", *address, kHostForm);
    host = *std::move(address);
    constexpr absl::string_view kPortForm =
        "a port from 1 to 65535 on which rank 0 serves the store";
    absl::StatusOr<std::string> port = reader.Text("MASTER_PORT", kPortForm);
    if (!port.ok()) return port.status();
    const std::optional<int> number = ParseDigits(*port, kMaxPort);
    if (!number.has_value() || *number == 0) return Reader::Bad("MASTER_PORT", *port, kPortForm);
    world.store_address = Endpoint{host, static_cast<uint16_t>(*number)}.ToString();
    if (world.rank == 0) world.serve_address = world.store_address;
  }

  // With every rank on one host the local numbers are the global ones, so they may be left out.
  const bool one_host = world.size == 1 || IsLoopbackHost(host);
  world.local_size = world.size;
  if (!one_host || environment.Get("LOCAL_WORLD_SIZE").has_value()) {
    absl::StatusOr<int> local_size = reader.LocalSize("LOCAL_WORLD_SIZE", "WORLD_SIZE", world.size);
    if (!local_size.ok()) return local_size.status();
    world.local_size = *local_size;
  }
  world.local_rank = world.rank;
  if (world.local_size < world.size || environment.Get("LOCAL_RANK").has_value()) {
    absl::StatusOr<int> local_rank =
        reader.Rank("LOCAL_RANK", "LOCAL_WORLD_SIZE", world.local_size);
    if (!local_rank.ok()) return local_rank.status();
    world.local_rank = *local_rank;
  }

  const std::optional<std::string> token_file = environment.Get("MUSTER_TOKEN_FILE");
  if (token_file.has_value() && world.size > 1) {
    absl::StatusOr<std::string> token = ReadToken(*token_file);
    if (!token.ok()) return token.status();
    world.token = *std::move(token);
  }
  if (!one_host && world.token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("MASTER_ADDR is ", Seen(host),
                     ", which other hosts can reach, and MUSTER_TOKEN_FILE is not set: expected a "
                     "file with a secret that all ranks share (or MASTER_ADDR=127.0.0.1 when all "
                     "ranks are on this host)"));
  }
  return world;
}

}  // namespace

absl::Status World::Validate() const {
  const auto bad = [](absl::string_view field, const auto& value, absl::string_view form) {
    return absl::InvalidArgumentError(
        absl::StrCat("world: ", field, " is ", value, ": expected ", form));
  };
  if (size < 1 || size > kMaxWorldSize) {
    return bad("size", size, absl::StrCat("1 to ", kMaxWorldSize));
  }
  if (rank < 0 || rank >= size) {
    return bad("rank", rank, absl::StrCat("0 to ", size - 1, ", since size is ", size));
  }
  if (local_size < 1 || local_size > size) {
    return bad("local_size", local_size, absl::StrCat("1 to ", size, ", since size is ", size));
  }
  if (local_rank < 0 || local_rank >= local_size) {
    return bad("local_rank", local_rank,
               absl::StrCat("0 to ", local_size - 1, ", since local_size is ", local_size));
  }
  constexpr absl::string_view kEndpoint = "host:port, such as 127.0.0.1:41231";
  if (size == 1 && !store_address.empty()) {
    return bad("store_address", Seen(store_address), "none, since size is 1");
  }
  if (size > 1 && !IsStoreAddress(store_address)) {
    return bad("store_address", Seen(store_address), absl::StrCat(kEndpoint, ", or unix:/path"));
  }
  if (local_size < size && ParseUnixAddress(store_address).has_value()) {
    return bad("store_address", Seen(store_address),
               absl::StrCat(kEndpoint, ", since other hosts have ", size - local_size,
                            " of the ranks and do not reach a unix socket"));
  }
  if (!serve_address.empty()) {
    if (rank != 0) {
      return bad("serve_address", Seen(serve_address),
                 absl::StrCat("none, since only rank 0 serves and this is rank ", rank));
    }
    if (size == 1) return bad("serve_address", Seen(serve_address), "none, since size is 1");
    if (!IsReachable(serve_address)) return bad("serve_address", Seen(serve_address), kEndpoint);
  }
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "world: token holds a space or an unprintable character: expected printable ones only");
    }
  }
  if (token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("world: token has ", token.size(),
                                                   " bytes: expected at most ", kMaxTokenBytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<World> WorldFromEnvironment(const Environment& environment) {
  // MUSTER_TOKEN_FILE decides nothing: it also goes with RANK and its like.
  const absl::string_view ours =
      FirstSet(environment, {"MUSTER_RANK", "MUSTER_WORLD_SIZE", "MUSTER_LOCAL_RANK",
                             "MUSTER_LOCAL_WORLD_SIZE", "MUSTER_STORE"});
  absl::StatusOr<World> world;
  if (!ours.empty()) {
    world = FromMusterRun(environment, ours);
  } else if (const absl::string_view standard = FirstSet(environment, {"RANK", "WORLD_SIZE"});
             !standard.empty()) {
    world = FromStandardVariables(environment, standard);
  } else {
    // LOCAL_RANK or MASTER_ADDR alone says nothing about a job: clusters set them for every
    // process.
    if (absl::Status refused = RefuseOtherLaunchers(environment); !refused.ok()) return refused;
    world = World();
    world->launcher = "none (neither MUSTER_RANK nor RANK is set)";
  }
  if (!world.ok()) return world;
  if (absl::Status valid = world->Validate(); !valid.ok()) return valid;
  world->error_file = environment.Get("TORCHELASTIC_ERROR_FILE").value_or("");
  return world;
}

}  // namespace muster
