#include "muster/testing/contract/served_store.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/observe/process_holdings.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster::testing {
namespace {

constexpr absl::string_view kLook = "look";
constexpr absl::string_view kLost = "lost ";

absl::Time Soon() { return MonotonicNow() + TimeoutScale() * absl::Seconds(30); }

void Serve(int ranks, TestLink& link) {
  TcpStoreServer::Options options;
  options.world_size = ranks;
  options.served_by = absl::StrCat("the test, pid ", getpid());
  const absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
  if (!server.ok()) {
    link.Say(server.status().ToString());
    return;
  }
  link.Say((*server)->address());
  while (true) {
    const std::string asked = link.Await();
    absl::string_view rest = asked;
    int rank = 0;
    if (absl::ConsumePrefix(&rest, kLost) && absl::SimpleAtoi(rest, &rank)) {
      (*server)->DeclareLost(rank, "killed by signal 9");
      continue;
    }
    int64_t records = 0;
    int64_t keys = 0;
    for (const Entry& entry : (*server)->Entries("")) {
      if (absl::StartsWith(entry.key, kGroupKeyPrefix)) {
        ++records;
      } else if (!absl::StartsWith(entry.key, kSessionKeyPrefix)) {
        ++keys;
      }
    }
    link.Say(
        absl::StrCat(records, " ", keys, " ", ProcessHoldings::Now().fds, " ", ResidentMemory()));
  }
}

}  // namespace

int64_t ResidentMemory() {
  const std::vector<std::string> pages =
      absl::StrSplit(ReadFile("/proc/self/statm").value_or(""), ' ');
  int64_t resident = 0;
  if (pages.size() < 2 || !absl::SimpleAtoi(pages[1], &resident)) return -1;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

absl::StatusOr<ServedStore> ServedStore::Start(int ranks) {
  absl::StatusOr<ForkedProcess> process =
      ForkedProcess::Start([ranks](TestLink& link) { Serve(ranks, link); });
  if (!process.ok()) return process.status();
  std::optional<std::string> address = process->Hear(Soon());
  if (!address.has_value() || !absl::StartsWith(*address, "127.0.0.1:")) {
    return absl::UnavailableError(
        absl::StrCat("the store of the test did not start: ", address.value_or("no word of it")));
  }
  return ServedStore(ranks, *std::move(process), *std::move(address));
}

World ServedStore::RankOf(int rank) const {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = ranks_;
  world.store_address = address_;
  world.launcher = "test";
  return world;
}

absl::StatusOr<ServedStore::Contents> ServedStore::Look() {
  process_.Tell(kLook);
  const std::string answer = process_.Hear(Soon()).value_or("");
  const std::vector<std::string> numbers = absl::StrSplit(answer, ' ');
  Contents contents;
  if (numbers.size() != 4 || !absl::SimpleAtoi(numbers[0], &contents.records) ||
      !absl::SimpleAtoi(numbers[1], &contents.keys) ||
      !absl::SimpleAtoi(numbers[2], &contents.fds) ||
      !absl::SimpleAtoi(numbers[3], &contents.memory)) {
    return absl::UnavailableError(
        absl::StrCat("the store of the test does not say what it holds: '", answer, "'"));
  }
  return contents;
}

void ServedStore::DeclareLost(int rank) { process_.Tell(absl::StrCat(kLost, rank)); }

}  // namespace muster::testing
