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
#include "muster/core/launch/job_result.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/lifecycle/group_record.h"
#include "muster/core/platform/endpoint.h"
#include "muster/core/store/session_record.h"
#include "muster/core/store/store.h"
#include "muster/core/store/tcp_store_server.h"

namespace muster {
namespace {

class TcpLaunchedStore final : public LaunchedStore {
 public:
  // `folder`: of its socket alone; null for none. `notice`: "" for none.
  TcpLaunchedStore(std::unique_ptr<TcpStoreServer> server, std::unique_ptr<PrivateFolder> folder,
                   std::string notice)
      : folder_(std::move(folder)), server_(std::move(server)), notice_(std::move(notice)) {}

  std::string address() const override { return server_->address(); }
  void DeclareLost(int rank, absl::string_view reason) override {
    server_->DeclareLost(rank, reason);
  }
  std::string Notice() const override { return notice_; }
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
  const std::unique_ptr<PrivateFolder> folder_;  // which goes last
  const std::unique_ptr<TcpStoreServer> server_;
  const std::string notice_;
};

TcpStoreServer::Options OptionsFor(const LaunchedStoreRequest& request,
                                   const ServeStoreOptions& own) {
  TcpStoreServer::Options options;
  options.world_size = request.world_size;
  options.token = request.token;
  options.served_by = absl::StrCat("the launcher, pid ", getpid());
  options.loss_grace = own.loss_grace;
  options.on_session = [tell = request.on_session](const SessionRecord& record) {
    const bool live = record.liveness == SessionRecord::Liveness::kLive;
    if (tell) tell(record.rank, live ? std::nullopt : std::optional(record.reason));
  };
  return options;
}

using ServerOr = absl::StatusOr<std::unique_ptr<TcpStoreServer>>;

// InvalidArgument or Unimplemented: no socket has a place there.
ServerOr ServeIn(const std::string& folder, TcpStoreServer::Options options) {
  options.address = UnixAddress(absl::StrCat(folder, "/store"));
  if (!ParseUnixAddress(options.address).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", options.address,
                     "\" is no path for one: it has to be absolute, with at most 107 "
                     "bytes; TMPDIR decides"));
  }
  ServerOr server = TcpStoreServer::Start(options);
  // The folder is ours, so what is not permitted there is a socket: some file systems say it so.
  if (absl::IsPermissionDenied(server.status())) {
    return absl::UnimplementedError(server.status().message());
  }
  return server;
}

bool HasNoPlace(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

using StoreOr = absl::StatusOr<std::unique_ptr<LaunchedStore>>;

StoreOr ServeOnTcp(const TcpStoreServer::Options& options, const std::string& notice) {
  ServerOr server = TcpStoreServer::Start(options);
  if (!server.ok()) return server.status();
  return std::make_unique<TcpLaunchedStore>(*std::move(server), nullptr, notice);
}

StoreOr ServeOnUnixSocket(const LaunchedStoreRequest& request, const ServeStoreOptions& own) {
  const TcpStoreServer::Options options = OptionsFor(request, own);
  std::unique_ptr<PrivateFolder> folder;
  ServerOr server = ServeIn(request.folder, options);
  const std::string reason(server.status().message());
  if (HasNoPlace(server.status())) {
    absl::StatusOr<std::unique_ptr<PrivateFolder>> other = PrivateFolder::Create(own.short_folder);
    if (other.ok()) {
      folder = *std::move(other);
      server = ServeIn(folder->path(), options);
    }
  }
  if (HasNoPlace(server.status())) {
    const std::string notice = absl::StrCat(
        "the store is served on TCP, where every user of this host may connect, and not on a unix "
        "socket: ",
        reason);
    LOG(WARNING) << notice;
    return ServeOnTcp(options, notice);
  }
  if (!server.ok()) return server.status();
  return std::make_unique<TcpLaunchedStore>(*std::move(server), std::move(folder), "");
}

}  // namespace

LaunchedStoreFactory ServeTcpStore(ServeStoreOptions options) {
  return [own = std::move(options)](const LaunchedStoreRequest& request) {
    return ServeOnTcp(OptionsFor(request, own), "");
  };
}

LaunchedStoreFactory ServeUnixStore(ServeStoreOptions options) {
  return [own = std::move(options)](const LaunchedStoreRequest& request) {
    return ServeOnUnixSocket(request, own);
  };
}

}  // namespace muster
