#include "muster/core/launch/tcp_launched_store.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "muster/core/launch/job_result.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

// The launcher reaps a process within milliseconds of its connection's end and knows more than "its
// connection closed"; where the machine is too busy even for that, peers still learn it within a
// second.
constexpr absl::Duration kLossGrace = absl::Milliseconds(300);

class TcpLaunchedStore final : public LaunchedStore {
 public:
  explicit TcpLaunchedStore(std::unique_ptr<TcpStoreServer> server) : server_(std::move(server)) {}

  std::string address() const override { return server_->address(); }
  void DeclareLost(int rank, absl::string_view reason) override {
    server_->DeclareLost(rank, reason);
  }
  std::string Refused() const override { return server_->Statistics().Refused(); }
  std::vector<FailedGroup> FailedGroups() const override {
    std::map<Revision, FailedGroup> failed;  // in the order of the failures: a cause is for ever
    Revision last_good = 0;
    bool one_works = false;
    for (const Entry& entry : server_->Entries(kGroupKeyPrefix)) {
      const absl::StatusOr<GroupRecord> record = GroupRecord::Decode(entry.value);
      if (!record.ok()) continue;
      if (record->cause.ok()) {
        last_good = std::max(last_good, entry.revision);
        one_works |=
            !record->intent.has_value() || record->intent->kind != CloseIntent::Kind::kClose;
        continue;
      }
      const absl::string_view name = absl::StripPrefix(entry.key, kGroupKeyPrefix);
      // One line, whatever the ranks wrote.
      failed[entry.revision] = {absl::Utf8SafeCHexEscape(name),
                                absl::StrReplaceAll(record->cause.message(), {{"\n", " "}}),
                                record->RankAtFault(), record->BlamesAnEnd()};
    }
    std::vector<FailedGroup> groups;
    for (auto& [revision, group] : failed) {
      // The job went on after it, or could, so it need not be why the job ends.
      if (one_works || revision < last_good) group.rank.reset();
      groups.push_back(std::move(group));
    }
    return groups;
  }

 private:
  const std::unique_ptr<TcpStoreServer> server_;
};

TcpStoreServer::Options OptionsFor(const LaunchedStoreRequest& request) {
  TcpStoreServer::Options options;
  options.world_size = request.world_size;
  options.token = request.token;
  options.served_by = absl::StrCat("the launcher, pid ", getpid());
  options.loss_grace = kLossGrace;
  options.on_session = [tell = request.on_session](const SessionRecord& record) {
    const bool live = record.liveness == SessionRecord::Liveness::kLive;
    if (tell) tell(record.rank, live ? std::nullopt : std::optional(record.reason));
  };
  return options;
}

absl::StatusOr<std::unique_ptr<LaunchedStore>> Serve(const TcpStoreServer::Options& options) {
  absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start(options);
  if (!server.ok()) return server.status();
  return std::make_unique<TcpLaunchedStore>(*std::move(server));
}

}  // namespace

LaunchedStoreFactory ServeTcpStore() {
  return [](const LaunchedStoreRequest& request) { return Serve(OptionsFor(request)); };
}

LaunchedStoreFactory ServeUnixStore() {
  return [](const LaunchedStoreRequest& request) -> absl::StatusOr<std::unique_ptr<LaunchedStore>> {
    TcpStoreServer::Options options = OptionsFor(request);
    const std::string tcp = options.address;
    options.address = UnixAddress(absl::StrCat(request.folder, "/store"));
    absl::Status reason = absl::InvalidArgumentError("there is no private folder");
    if (!request.folder.empty()) {
      absl::StatusOr<std::unique_ptr<LaunchedStore>> store = Serve(options);
      if (store.ok()) return store;
      reason = store.status();
    }
    LOG(INFO) << "the store is served on TCP, not on a unix socket: " << reason.message();
    options.address = tcp;
    return Serve(options);
  };
}

}  // namespace muster
