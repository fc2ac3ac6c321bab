#include "muster/testing/contract/fault_cell.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "muster/core/platform/timeout_scale.h"

namespace muster::testing {
namespace {

constexpr std::array<std::pair<Fault, absl::string_view>, 12> kFaults = {{
    {Fault::kKill, "kill"},
    {Fault::kStop, "stop"},
    {Fault::kNeverStarted, "neverstarted"},
    {Fault::kExit, "exit"},
    {Fault::kThrow, "throw"},
    {Fault::kStuck, "stuck"},
    {Fault::kPartition, "partition"},
    {Fault::kShortStop, "shortstop"},
    {Fault::kShortCut, "shortcut"},
    {Fault::kLongStop, "longstop"},
    {Fault::kStorePaused, "storepaused"},
    {Fault::kDataPartition, "datapartition"},
}};

constexpr std::array<std::pair<Phase, absl::string_view>, 7> kPhases = {{
    {Phase::kRendezvous, "rendezvous"},
    {Phase::kConnecting, "connecting"},
    {Phase::kReady, "ready"},
    {Phase::kCollective, "collective"},
    {Phase::kDraining, "draining"},
    {Phase::kClosing, "closing"},
    {Phase::kWorking, "working"},
}};

constexpr std::array<std::pair<Planted, absl::string_view>, 7> kPlanted = {{
    {Planted::kNothing, ""},
    {Planted::kDetectionOff, "detectionoff"},
    {Planted::kWrongBlame, "wrongblame"},
    {Planted::kLeakedFd, "leakedfd"},
    {Planted::kLeakedThread, "leakedthread"},
    {Planted::kLeakedProcess, "leakedprocess"},
    {Planted::kRollbackSkipped, "rollbackskipped"},
}};

template <class Table, class Value>
absl::string_view NameIn(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

template <class Table, class Value>
bool FindIn(const Table& table, absl::string_view name, Value* value) {
  for (const auto& [known, its_name] : table) {
    if (its_name != name) continue;
    *value = known;
    return true;
  }
  return false;
}

}  // namespace

absl::string_view Name(Fault fault) { return NameIn(kFaults, fault); }
absl::string_view Name(Phase phase) { return NameIn(kPhases, phase); }

std::optional<int> FaultCell::outsider() const {
  if (n < 4 || phase != Phase::kCollective || fault == Fault::kStuck) return std::nullopt;
  return n - 1;
}

std::optional<int> FaultCell::latecomer() const {
  const bool waits = phase == Phase::kRendezvous && n >= 4 && fault != Fault::kNeverStarted &&
                     fault != Fault::kStuck;
  return waits ? std::optional(n - 1) : std::nullopt;
}

bool FaultCell::needs_network() const {
  return fault == Fault::kPartition || fault == Fault::kShortCut || fault == Fault::kDataPartition;
}

std::string FaultCell::Name() const {
  std::vector<std::string> parts = {std::string(testing::Name(fault)),
                                    std::string(testing::Name(phase)), backend, absl::StrCat(n)};
  if (planted != Planted::kNothing) parts.emplace_back(NameIn(kPlanted, planted));
  return absl::StrJoin(parts, "_");
}

std::optional<FaultCell> FaultCell::Parse(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '_');
  FaultCell cell;
  if (parts.size() < 4 || parts.size() > 5 || !FindIn(kFaults, parts[0], &cell.fault) ||
      !FindIn(kPhases, parts[1], &cell.phase) || !absl::SimpleAtoi(parts[3], &cell.n) ||
      cell.n < 2 || (parts.size() == 5 && !FindIn(kPlanted, parts[4], &cell.planted))) {
    return std::nullopt;
  }
  cell.backend = parts[2];
  return cell;
}

std::vector<FaultCell> FaultMatrix() {
  std::vector<FaultCell> cells;
  for (const auto& [fault, fault_name] : kFaults) {
    if (fault > Fault::kPartition) break;
    for (const auto& [phase, phase_name] : kPhases) {
      if (phase == Phase::kWorking) break;
      for (const char* const backend : {"reference", "gloo"}) {
        for (const int n : {2, 4}) cells.push_back({fault, phase, backend, n, Planted::kNothing});
      }
    }
  }
  return cells;
}

std::string WhyNoSense(const FaultCell& cell) {
  if (cell.fault == Fault::kNeverStarted && cell.phase != Phase::kRendezvous) {
    return "a group leaves the rendezvous only when every rank has come";
  }
  return "";
}

FaultTimeouts TimeoutsOf(const FaultCell& cell) {
  FaultTimeouts timeouts;
  const absl::Duration is_what_ends_it = absl::Seconds(3);
  switch (cell.fault) {
    case Fault::kNeverStarted:
      timeouts.setup = is_what_ends_it;
      break;
    case Fault::kStuck:
      if (cell.phase <= Phase::kConnecting) timeouts.setup = is_what_ends_it;
      if (cell.phase == Phase::kCollective) timeouts.operation = absl::Seconds(2);
      timeouts.close = absl::Seconds(2);
      break;
    case Fault::kDataPartition:
      timeouts.operation = is_what_ends_it;
      break;
    case Fault::kShortStop:
    case Fault::kShortCut:
      timeouts.heartbeat = absl::Seconds(5);
      timeouts.disturbance = absl::Seconds(1.5);
      break;
    case Fault::kLongStop:
      timeouts.heartbeat = absl::InfiniteDuration();
      timeouts.disturbance = absl::Seconds(4);
      break;
    case Fault::kStorePaused:
      timeouts.disturbance = absl::Seconds(4);
      break;
    default:
      break;
  }
  if (cell.planted == Planted::kDetectionOff) timeouts.heartbeat = absl::InfiniteDuration();
  const double scale = TimeoutScale();
  for (absl::Duration* const one :
       {&timeouts.heartbeat, &timeouts.setup, &timeouts.operation, &timeouts.close,
        &timeouts.cause_window, &timeouts.disturbance}) {
    *one *= scale;
  }
  return timeouts;
}

FaultExpectation Expect(const FaultCell& cell) {
  const FaultTimeouts timeouts = TimeoutsOf(cell);
  const std::string victim = absl::StrCat("rank ", cell.victim());
  const std::string process = absl::StrCat(victim, " \\(host [^,]*, pid [0-9]+\\)");
  FaultExpectation expected;
  expected.known = TimeoutScale() * absl::Seconds(1);
  expected.may_end_clean = cell.phase == Phase::kClosing;
  // There a loss counts when the backend's Finalize has failed for it, and not before.
  if (cell.phase == Phase::kClosing) expected.known += timeouts.close;
  switch (cell.fault) {
    case Fault::kKill:
      expected.cause =
          absl::StrCat(process, " was lost: (killed by signal 9|its connection (closed|reset))");
      break;
    case Fault::kExit:
      expected.cause = absl::StrCat(
          process,
          " (exited while its (groups were alive|pool was open)|was lost: (exited with "
          "code 0|its connection (closed|reset)))");
      break;
    case Fault::kThrow:
      expected.cause =
          absl::StrCat("(", victim, " left: \"an exception\"|", process,
                       " was lost: (killed by signal 6|its connection (closed|reset)))");
      break;
    case Fault::kStop:
    case Fault::kPartition:
      expected.cause = absl::StrCat(process, " was lost: no heartbeat for ");
      // Silence is looked at each tenth of the timeout.
      expected.known += 1.2 * (timeouts.heartbeat == absl::InfiniteDuration()
                                   ? FaultTimeouts().heartbeat * TimeoutScale()
                                   : timeouts.heartbeat);
      break;
    case Fault::kNeverStarted:
      expected.cause = absl::StrCat(victim, " of ", cell.n, " did not call Acquire for it in time");
      expected.known += timeouts.setup;
      break;
    case Fault::kStuck:
      switch (cell.phase) {
        case Phase::kRendezvous:
          expected.cause =
              absl::StrCat(victim, " of ", cell.n, " did not call Acquire for it in time");
          expected.known += timeouts.setup;
          break;
        case Phase::kConnecting:
          expected.cause = absl::StrCat(victim, " of ", cell.n, " did not (connect|come)");
          expected.known += timeouts.setup;
          break;
        case Phase::kReady:
          expected.must_end_clean = true;
          expected.known += timeouts.close;
          break;
        case Phase::kCollective:
          expected.cause = absl::StrCat(victim, " has not entered it");
          expected.known += timeouts.operation + 3 * timeouts.cause_window;
          break;
        case Phase::kDraining:
          // Who saw it is said, not who is stuck.
          expected.cause = "did not close in time: (this rank|other ranks) had not finished";
          expected.known += timeouts.close;
          break;
        default:
          // A backend's Finalize that waits for it: gloo's does not know for whom.
          expected.cause = absl::StrCat("was not closed cleanly: the deadline passed (before ",
                                        victim, " closed|while this rank waited for its peers)");
          expected.known += timeouts.close;
      }
      break;
    case Fault::kDataPartition:
      expected.cause = "did not finish within";
      expected.known += timeouts.operation + 3 * timeouts.cause_window;
      break;
    case Fault::kShortStop:
    case Fault::kShortCut:
    case Fault::kLongStop:
    case Fault::kStorePaused:
      expected.must_end_clean = true;
      expected.known += timeouts.disturbance + timeouts.close;
      break;
  }
  expected.terminal = expected.known + timeouts.cause_window + timeouts.close;
  return expected;
}

}  // namespace muster::testing
