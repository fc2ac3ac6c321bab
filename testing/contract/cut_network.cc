#include "muster/testing/contract/cut_network.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "muster/core/launch/rank_exit.h"
#include "muster/core/platform/environment.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/platform/read_file.h"
#include "muster/core/platform/timeout_scale.h"
#include "muster/tools/process/child_process.h"

namespace muster::testing {
namespace {

constexpr char kOwn[] = "/proc/self/ns/net";
constexpr char kVariable[] = "MUSTER_TEST_NETWORK";

// Where ip(8) and unshare(1) lie for root.
Environment ToolsEnvironment() {
  Environment::Variables variables = Environment::OfProcess().variables();
  variables["PATH"] = "/usr/sbin:/sbin:/usr/bin:/bin";
  return Environment(std::move(variables));
}

// Unavailable with what it printed when it does not exit with 0.
absl::Status RunTool(const std::vector<std::string>& command) {
  // The tool writes where only this process reads; no file's name is needed.
  const UniqueFd printed(memfd_create("printed", MFD_CLOEXEC));
  const std::string path = absl::StrCat("/proc/", getpid(), "/fd/", printed.get());
  ProcessOutput output;
  output.out = output.errors = path;
  const absl::StatusOr<RankExit> exit = RunProcess(
      command, ToolsEnvironment(), MonotonicNow() + TimeoutScale() * absl::Seconds(20), output);
  if (!exit.ok()) return absl::UnavailableError(exit.status().message());
  if (exit->ok()) return absl::OkStatus();
  const absl::StatusOr<std::string> said = ReadFile(path);
  return absl::UnavailableError(absl::StrCat(
      command[0], " ", exit->ToString(), ": ",
      said.ok() ? absl::StrReplaceAll(absl::StripAsciiWhitespace(*said), {{"\n", " "}}) : ""));
}

absl::StatusOr<UniqueFd> OpenNamespace(const char* path) {
  UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return fd;
}

absl::StatusOr<UniqueFd> NewNamespace() {
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a network namespace");
  }
  return OpenNamespace(kOwn);
}

}  // namespace

std::vector<std::string> InNetworkOfItsOwn(const std::vector<std::string>& command) {
  std::vector<std::string> all = {"unshare", "--user", "--map-root-user", "--net", "--"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

absl::Status NetworksCanBeMade() {
  return RunTool(InNetworkOfItsOwn(
      {"sh", "-ec",
       "ip link add name bridge type bridge; ip link add name a type veth peer name b; "
       "ip link set dev a master bridge; exec unshare --net true"}));
}

absl::StatusOr<std::unique_ptr<CutNetwork>> CutNetwork::Create(int hosts) {
  auto network = absl::WrapUnique(new CutNetwork);
  absl::StatusOr<UniqueFd> home = OpenNamespace(kOwn);
  if (!home.ok()) return home.status();
  network->hosts_.push_back(*std::move(home));
  const absl::Cleanup go_home = [fd = network->hosts_[0].get()] { setns(fd, CLONE_NEWNET); };
  for (int host = 1; host < hosts; ++host) {
    absl::StatusOr<UniqueFd> other = NewNamespace();
    if (!other.ok()) return other.status();
    network->hosts_.push_back(*std::move(other));
  }
  absl::StatusOr<UniqueFd> bridge = NewNamespace();
  if (!bridge.ok()) return bridge.status();
  network->bridge_ = *std::move(bridge);

  std::string commands = "link add name bridge type bridge\nlink set dev bridge up\n";
  for (int host = 0; host < hosts; ++host) {
    absl::StrAppend(&commands, "link add name host", host, " type veth peer name eth0 netns /proc/",
                    getpid(), "/fd/", network->hosts_[static_cast<size_t>(host)].get(),
                    "\nlink set dev host", host, " master bridge up\n");
  }
  if (absl::Status made = network->Ip(network->bridge_, commands); !made.ok()) return made;
  for (int host = 0; host < hosts; ++host) {
    absl::Status up = network->Ip(network->hosts_[static_cast<size_t>(host)],
                                  absl::StrCat("link set dev lo up\naddress add ", AddressOf(host),
                                               "/24 dev eth0\nlink set dev eth0 up\n"));
    if (!up.ok()) return up;
  }
  return network;
}

std::string CutNetwork::AddressOf(int host) { return absl::StrCat("10.77.0.", host + 1); }

std::map<std::string, std::string> CutNetwork::VariablesOf(int host) const {
  return {{kVariable,
           absl::StrCat("/proc/", getpid(), "/fd/", hosts_[static_cast<size_t>(host)].get())}};
}

absl::Status CutNetwork::Cut(int host) {
  return Ip(bridge_, absl::StrCat("link set dev host", host, " nomaster\n"));
}

absl::Status CutNetwork::Heal(int host) {
  return Ip(bridge_, absl::StrCat("link set dev host", host, " master bridge\n"));
}

absl::Status CutNetwork::Part() {
  std::string commands;
  for (size_t host = 1; host < hosts_.size(); ++host) {
    absl::StrAppend(&commands, "link set dev host", host, " type bridge_slave isolated on\n");
  }
  return Ip(bridge_, commands);
}

absl::Status CutNetwork::Ip(const UniqueFd& where, const std::string& commands) const {
  absl::StatusOr<UniqueFd> here = OpenNamespace(kOwn);
  if (!here.ok()) return here.status();
  const UniqueFd batch(memfd_create("commands", MFD_CLOEXEC));
  if (write(batch.get(), commands.data(), commands.size()) !=
      static_cast<ssize_t>(commands.size())) {
    return absl::ErrnoToStatus(errno, "cannot write the commands of ip");
  }
  if (setns(where.get(), CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot enter a network namespace");
  }
  absl::Status done =
      RunTool({"ip", "-batch", absl::StrCat("/proc/", getpid(), "/fd/", batch.get())});
  if (setns(here->get(), CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot go back to a network namespace");
  }
  return done;
}

absl::Status EnterNetworkOfRank() {
  const char* const path = getenv(kVariable);
  if (path == nullptr) return absl::OkStatus();
  const absl::StatusOr<UniqueFd> fd = OpenNamespace(path);
  if (!fd.ok()) return fd.status();
  if (setns(fd->get(), CLONE_NEWNET) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot enter ", path));
  }
  return absl::OkStatus();
}

}  // namespace muster::testing
