#include "muster/tools/muster/doctor_command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "muster/core/collective/backend.h"
#include "muster/core/collective/device.h"
#include "muster/core/fault/fault_spec.h"
#include "muster/core/launch/launched_store.h"
#include "muster/core/launch/private_folder.h"
#include "muster/core/launch/process_tree.h"
#include "muster/core/launch/tcp_launched_store.h"
#include "muster/core/rendezvous/world.h"

namespace muster {
namespace {

constexpr absl::string_view kUsage =
    R"(usage: muster doctor

Prints what this machine has: the backends of this binary, what the launcher needs of the kernel,
limits, and the variables of a launcher around it. Exits with 1 when a line says PROBLEM.
)";

class Report {
 public:
  explicit Report(std::ostream* out) : out_(out) {}

  void Line(absl::string_view what, absl::string_view finding) {
    *out_ << absl::StreamFormat("%-12s %s\n", what, finding);
  }
  void Problem(absl::string_view what, absl::string_view finding) {
    Line(what, absl::StrCat("PROBLEM: ", finding));
    problems_ = true;
  }
  bool problems() const { return problems_; }

 private:
  std::ostream* const out_;
  bool problems_ = false;
};

std::string Limit(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : absl::StrCat(value);
}

void Backends(Report& report) {
  std::vector<std::string> findings;
  for (const std::string& name : BackendRegistry::Global().Names()) {
    const absl::StatusOr<Backend*> backend = BackendRegistry::Global().Find(name);
    absl::Status status = backend.status();
    if (status.ok()) status = (*backend)->Check(Device::Cpu(), {});
    if (!status.ok()) report.Problem("backends", status.message());
    if (status.ok()) findings.push_back(name);
  }
  report.Line("backends", findings.empty()
                              ? "none that works in this binary; a program links its own"
                              : absl::StrCat(absl::StrJoin(findings, ", "),
                                             " (in this binary; a program links its own)"));
}

void Kernel(Report& report) {
  const ScopedSubreaper subreaper;
  if (subreaper.works()) {
    report.Line("subreaper", "works: what a rank leaves behind is found and ended");
  } else {
    report.Problem("subreaper", "not there: processes that detach themselves outlive their job");
  }
#ifdef SYS_pidfd_open
  const int64_t fd = syscall(SYS_pidfd_open, getpid(), 0);
  report.Line("pidfd",
              fd >= 0 ? "works" : absl::StrCat("not there (", strerror(errno), "); not needed"));
  if (fd >= 0) close(static_cast<int>(fd));
#endif
}

void Limits(Report& report) {
  constexpr rlim_t kFewFiles = 256;
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  const std::string files =
      absl::StrCat(Limit(limit.rlim_cur), " (can be raised to ", Limit(limit.rlim_max), ")");
  if (limit.rlim_cur < kFewFiles) {
    report.Problem("open files",
                   absl::StrCat(files, ": each rank of a job needs some; `ulimit -n`"));
  } else {
    report.Line("open files", files);
  }
  getrlimit(RLIMIT_NPROC, &limit);
  report.Line("processes", Limit(limit.rlim_cur));
  getrlimit(RLIMIT_MEMLOCK, &limit);
  report.Line("locked mem", Limit(limit.rlim_cur));
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) == 0) {
    const double mib = static_cast<double>(shm.f_frsize) / (1 << 20);
    report.Line("/dev/shm", absl::StrFormat("%.0f MiB free of %.0f MiB",
                                            mib * static_cast<double>(shm.f_bavail),
                                            mib * static_cast<double>(shm.f_blocks)));
  } else {
    report.Line("/dev/shm", absl::StrCat("not there (", strerror(errno), ")"));
  }
}

// As `muster run` serves it.
void Store(const Environment& environment, Report& report) {
  const absl::StatusOr<std::unique_ptr<PrivateFolder>> folder =
      PrivateFolder::Create(TemporaryFolder(environment));
  if (!folder.ok()) return report.Problem("store", folder.status().message());
  LaunchedStoreRequest request;
  request.token = "doctor";
  request.folder = (*folder)->path();
  const absl::StatusOr<std::unique_ptr<LaunchedStore>> store = ServeUnixStore()(request);
  if (!store.ok()) {
    return report.Problem("store", absl::StrCat("cannot be served: ", store.status().message()));
  }
  report.Line("store", (*store)->Notice().empty()
                           ? absl::StrCat("can be served (tried on ", (*store)->address(), ")")
                           : (*store)->Notice());
}

void Surroundings(const Environment& environment, Report& report) {
  const absl::StatusOr<World> world = WorldFromEnvironment(environment);
  if (world.ok()) {
    report.Line("launcher",
                absl::StrCat("rank ", world->rank, " of ", world->size, " by ", world->launcher));
  } else {
    report.Problem("launcher", world.status().message());
  }
  const std::optional<std::string> faults = environment.Get("MUSTER_FAULTS");
  if (!faults.has_value()) return;
  const absl::StatusOr<std::vector<FaultSpec>> specs = ParseFaults(*faults);
  if (specs.ok()) {
    report.Line("faults", absl::StrCat("MUSTER_FAULTS arms ", specs->size()));
  } else {
    report.Problem("faults", absl::StrCat("MUSTER_FAULTS: ", specs.status().message()));
  }
}

int Doctor(CommandContext& context) {
  if (!context.arguments.empty()) {
    const bool help = context.arguments[0] == "--help" || context.arguments[0] == "-h";
    if (help) *context.out << kUsage;
    if (help) return 0;
    *context.errors << "muster doctor: unexpected argument \"" << context.arguments[0]
                    << "\": expected none\n";
    return Command::kUsageError;
  }
  Report report(context.out);
  report.Line("muster", kVersion);
  Backends(report);
  Kernel(report);
  Limits(report);
  Store(context.environment, report);
  Surroundings(context.environment, report);
  return report.problems() ? 1 : 0;
}

}  // namespace

Command DoctorCommand() {
  return {"doctor", "what this machine has: backends, kernel, limits, launchers", kUsage, Doctor};
}

}  // namespace muster
