#include "muster/trainer/examples/report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "muster/core/collective/buffer.h"
#include "muster/core/platform/control_thread.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/tcp_store.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

std::string Times(int64_t count) { return count == 1 ? "once" : absl::StrCat(count, " times"); }

// The numbers of a report whose largest values count, in one order; last the highest rank that
// could not count what is left, plus one, or 0.
std::vector<double> Pack(const Report& report, int rank) {
  return {static_cast<double>(report.groups_created),    static_cast<double>(report.groups_reused),
          absl::ToDoubleMilliseconds(report.create),     absl::ToDoubleMilliseconds(report.destroy),
          static_cast<double>(report.left.groups),       static_cast<double>(report.left.fds),
          static_cast<double>(report.left.threads),      static_cast<double>(report.left.segments),
          report.left.unknown.empty() ? 0.0 : rank + 1.0};
}

void Unpack(const std::vector<double>& values, int rank, Report& report) {
  report.groups_created = static_cast<int64_t>(values[0]);
  report.groups_reused = static_cast<int64_t>(values[1]);
  report.create = absl::Milliseconds(values[2]);
  report.destroy = absl::Milliseconds(values[3]);
  report.left = {static_cast<int64_t>(values[4]), static_cast<int64_t>(values[5]),
                 static_cast<int64_t>(values[6]), static_cast<int64_t>(values[7]),
                 report.left.unknown};
  const int unknown_on = static_cast<int>(values[8]) - 1;
  if (unknown_on >= 0 && unknown_on != rank) {
    report.left.unknown = absl::StrCat("rank ", unknown_on, " could not count what it holds");
  }
}

constexpr char kGiveFile[] = "give a file that is yours to write, in a folder that is there";

absl::Status CannotReport(const std::string& path, const char* what, int error,
                          const char* remedy) {
  if (error == 0) error = EIO;  // 0 would make it OK
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat("--report=", path, ": ", what, ": ", std::strerror(error), ": ", remedy));
}

}  // namespace

std::string Report::Summary(const std::string& group) const {
  std::string what_is_left = left.ToString();  // "nothing" where it is empty
  if (left_keys > 0) {
    const std::string keys = absl::StrCat(left_keys, " keys in the store");
    what_is_left = left.empty() ? keys : absl::StrCat(what_is_left, ", ", keys);
  }
  return absl::StrFormat(
      "group %s: created %s, the last time in %.1f ms; reused %s; destroyed in %.1f ms; left: %s",
      group, Times(groups_created), absl::ToDoubleMilliseconds(create), Times(groups_reused),
      absl::ToDoubleMilliseconds(destroy), what_is_left);
}

std::string Report::ToJson() const {
  const nlohmann::ordered_json json = {
      {"test_accuracy", test_accuracy},
      {"epochs", epochs},
      {"samples_per_second", samples_per_second},
      {"groups_created", groups_created},
      {"groups_reused", groups_reused},
      {"create_ms", absl::ToDoubleMilliseconds(create)},
      {"destroy_ms", absl::ToDoubleMilliseconds(destroy)},
      {"left",
       {{"groups", left.groups},
        {"fds", left.fds},
        {"threads", left.threads},
        {"segments", left.segments},
        {"keys", left_keys},
        {"unknown", left.unknown}}},
  };
  return absl::StrCat(json.dump(2), "\n");
}

absl::StatusOr<Report> MergeReports(const World& world, const Report& here, const GroupSpec& spec) {
  absl::StatusOr<std::unique_ptr<GroupPool>> pool = GroupPool::Create(world);
  if (!pool.ok()) return pool.status();
  absl::StatusOr<GroupLease> group = (*pool)->Acquire(spec);
  if (!group.ok()) return group.status();
  std::vector<double> values = Pack(here, world.rank);
  absl::Status status = (*group)->AllReduce(Buffer::Of(absl::MakeSpan(values)), ReduceOp::kMax);
  if (!status.ok()) return status;
  group->Release();
  status = (*pool)->Close(spec.close_timeout);
  if (!status.ok()) return status;
  Report merged = here;
  Unpack(values, world.rank, merged);
  return merged;
}

absl::StatusOr<int64_t> CountLeftKeys(const World& world, const std::string& group) {
  if (world.store_address.empty() || world.launcher != "muster run") return 0;
  absl::StatusOr<std::unique_ptr<ControlThread>> control = ControlThread::Start();
  if (!control.ok()) return control.status();
  TcpStore::Options options;
  options.address = world.store_address;
  options.token = world.token;
  options.session.rank = world.rank;
  options.session.world_size = world.size;
  options.session.host = "localhost";
  options.session.pid = getpid();
  options.session.incarnation = std::random_device()();
  options.deadline = MonotonicNow() + absl::Seconds(5);
  options.control_thread = control->get();
  absl::StatusOr<std::unique_ptr<TcpStore>> store = TcpStore::Connect(options);
  if (!store.ok()) return store.status();

  // A watch on everything begins with everything that is there.
  struct Snapshot {
    absl::Notification taken;
    absl::StatusOr<std::vector<WatchEvent>> events;
  };
  const auto snapshot = std::make_shared<Snapshot>();
  (*store)->Watch("", [snapshot](absl::StatusOr<std::vector<WatchEvent>> events) {
    if (snapshot->taken.HasBeenNotified()) return;
    snapshot->events = std::move(events);
    snapshot->taken.Notify();
  });
  if (!snapshot->taken.WaitForNotificationWithTimeout(absl::Seconds(5))) {
    return absl::DeadlineExceededError("the store did not list its keys within 5 s");
  }
  if (!snapshot->events.ok()) return snapshot->events.status();
  int64_t keys = 0;
  for (const WatchEvent& event : *snapshot->events) {
    const std::string& key = event.entry.key;
    const bool names_it = absl::EndsWith(key, absl::StrCat("/", group)) ||
                          absl::StrContains(key, absl::StrCat("/", group, "/"));
    if (names_it && key != absl::StrCat("group/", group)) ++keys;
  }
  return keys;
}

absl::Status CheckReport(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return CannotReport(path, "cannot open", EISDIR, kGiveFile);
    // Its reader may never come.
    if (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) {
      return CannotReport(path, "is a pipe or a socket", EINVAL, kGiveFile);
    }
    if (access(path.c_str(), W_OK) == 0) return absl::OkStatus();
    return CannotReport(path, "cannot open", errno, kGiveFile);
  }
  const std::string folder =
      absl::StrContains(path, '/') ? path.substr(0, path.rfind('/') + 1) : std::string(".");
  if (access(folder.c_str(), W_OK) == 0) return absl::OkStatus();
  return CannotReport(path, "cannot write to its folder", errno, kGiveFile);
}

absl::Status WriteReport(const std::string& path, const Report& report) {
  const std::string json = report.ToJson();
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr) {
    return CannotReport(path, "cannot open", errno, kGiveFile);
  }
  // A full disk shows here or, for what was buffered, when the file is closed.
  const bool written = std::fwrite(json.data(), 1, json.size(), file) == json.size();
  const int write_error = errno;
  const bool closed = std::fclose(file) == 0;
  const int error = written ? errno : write_error;
  if (written && closed) return absl::OkStatus();
  return CannotReport(path, "cannot write", error, "free space there, or give another file");
}

}  // namespace muster
