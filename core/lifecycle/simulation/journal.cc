#include "muster/core/lifecycle/simulation/journal.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace muster::simulation {
namespace {

struct Describer {
  std::string operator()(const action::Meet& a) const { return absl::StrCat("gather ", a.key); }
  std::string operator()(const action::Confirm& a) const { return absl::StrCat("gather ", a.key); }
  std::string operator()(const action::Vote& a) const {
    return absl::StrCat("gather ", a.key, " ", a.value);
  }
  std::string operator()(const action::Withdraw& a) const {
    return absl::StrCat("withdraw ", a.key, " (", a.reason, ")");
  }
  std::string operator()(const action::WriteRecord& a) const {
    return absl::StrCat("write record over revision ", a.expected, ": ", a.record.Encode());
  }
  std::string operator()(const action::Connect& a) const {
    return absl::StrCat("connect generation ", a.agreement.generation);
  }
  std::string operator()(const action::Drain& a) const {
    return absl::StrCat("drain to #", a.sequence, " (", a.closed_by, ")");
  }
  std::string operator()(const action::AskHolders&) const { return "ask holders"; }
  std::string operator()(const action::Finalize&) const { return "finalize"; }
  std::string operator()(const action::AbortBackend& a) const {
    return absl::StrCat("abort backend (", a.cause.message(), ")");
  }
  std::string operator()(const action::NameResidue&) const { return "name residue"; }
  std::string operator()(const action::WakeAt& a) const {
    if (a.when == absl::InfiniteFuture()) return "no alarm";
    return absl::StrFormat("alarm at %.3f ms",
                           absl::ToDoubleMilliseconds(a.when - absl::UnixEpoch()));
  }
  std::string operator()(const action::Enter& a) const {
    return absl::StrCat("[", Name(a.from), " -", Name(a.event), "-> ", Name(a.to), "]");
  }
  std::string operator()(const action::CauseResolved& a) const {
    return absl::StrCat("cause: ", Describe(a.cause));
  }
  std::string operator()(const action::ProposalRefused& a) const {
    return absl::StrCat("proposal refused: ", a.why.message());
  }
};

}  // namespace

std::string Describe(const Action& action) { return std::visit(Describer(), action); }

std::string Describe(const Actions& actions) {
  return absl::StrJoin(actions, "; ", [](std::string* out, const Action& action) {
    absl::StrAppend(out, Describe(action));
  });
}

std::string Describe(const absl::Status& status) {
  return status.ok() ? "OK"
                     : absl::StrCat(absl::StatusCodeToString(status.code()), " ", status.message());
}

std::string Describe(const Life& life) {
  return absl::StrCat("rank ", life.rank, ", attempt ", life.number, " of '", life.name,
                      "', generation ", life.generation, ", ", Name(life.state));
}

void Journal::Write(absl::Time now, int rank, absl::string_view what) {
  if (!enabled_) return;
  lines_.push_back(absl::StrFormat("%10.3f ms  %-8s %s",
                                   absl::ToDoubleMilliseconds(now - absl::UnixEpoch()),
                                   rank < 0 ? "" : absl::StrCat("rank ", rank), what));
}

void Journal::Write(absl::Time now, int rank, absl::string_view input, const Actions& actions) {
  if (!enabled_) return;
  Write(now, rank,
        actions.empty() ? std::string(input) : absl::StrCat(input, "  =>  ", Describe(actions)));
}

}  // namespace muster::simulation
