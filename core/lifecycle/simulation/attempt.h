// One group on one simulated rank: executes the actions of its GroupProtocol as core/group's
// runtime does, and is its owner.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_ATTEMPT_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_ATTEMPT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/group_protocol.h"
#include "muster/core/lifecycle/simulation/world.h"
#include "muster/core/store/client_core.h"

namespace muster::simulation {

class Attempt;

// What an attempt needs of its process.
class Host {
 public:
  virtual ~Host() = default;
  // Runs `step` now; later while the process is stopped or slow; never once it is dead.
  virtual void Run(std::function<void()> step) = 0;
  virtual store_internal::ClientCore& client() = 0;
  virtual Executor& clock() = 0;
  virtual int era() const = 0;
  // The store's answer to a compare-and-set tells of the record, too.
  virtual void Learn(const std::string& name, Revision revision, const GroupRecord& record) = 0;
  // It entered a state, or a vote has ended.
  virtual void OnChanged(Attempt& attempt) = 0;
  // Its program wants a group of that name again, perhaps another one.
  virtual void AcquireAgain(Attempt& attempt, bool another) = 0;
};

class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  // `number`: counts the attempts of the process. `host` outlives it.
  Attempt(World* world, Host* host, const std::string& name, Introduction introduction, int rank,
          int number);

  void Start();
  void Close();
  void Abort(absl::string_view why);
  void Propose();
  // One lease more, for a while.
  void HandOut();

  // --- from the process
  void OnRecord(Revision revision, const GroupRecord& record);
  void OnSession(const SessionRecord& session);
  void OnStoreLost(const absl::Status& why);
  void OnStopped();
  void OnCutOff();  // from the store; it will notice
  void OnResumed(absl::Duration stop);
  void OnClockLeap(absl::Duration by);
  // The process dies with it.
  void Die();

  const Life& life() const { return life_; }
  const std::string& id() const { return id_; }
  bool terminal() const { return IsTerminal(life_.state); }
  bool settled() const { return life_.was_ready || terminal(); }
  bool held() const { return life_.leases > 0; }
  // A vote on its replacement, which was told that nobody holds it here.
  bool voting() const { return voting_; }
  void CheckBounds() { world_->checker.CheckBounds(life_, now()); }
  // Started when nothing went wrong any more.
  bool is_calm() const { return calm_; }

 private:
  // The world's time, and the one that this process reads.
  absl::Time now() const { return world_->executor->Now(); }
  absl::Time here() const { return host_->clock().Now(); }
  Chooser& chooser() const { return *world_->chooser; }
  // Feeds one input and executes what follows.
  void Input(absl::string_view what, const std::function<Actions()>& step);
  void NoteVote();
  void InputFailure(absl::string_view what, absl::Status why, Certainty certainty);
  // Runs `step` as a later event of this process, while this attempt is there.
  std::function<void()> Later(std::function<void(Attempt&)> step);
  // The program of this rank, in the order of time.
  void After(absl::Duration delay, std::function<void(Attempt&)> step);
  // What may come at any moment until then.
  void AtSomeMoment(absl::Duration most, std::function<void(Attempt&)> step);

  void Do(const action::Meet& action);
  void Do(const action::Confirm& action);
  void Do(const action::Vote& action);
  void Do(const action::Withdraw& action);
  void Do(const action::WriteRecord& action);
  void Do(const action::Connect& action);
  void Do(const action::Drain& action);
  void Do(const action::AskHolders& action);
  void Do(const action::Finalize& action);
  void Do(const action::AbortBackend& action);
  void Do(const action::NameResidue& action);
  void Do(const action::WakeAt& action);
  void Do(const action::Enter& action);
  void Do(const action::CauseResolved& action);
  void Do(const action::ProposalRefused& action);

  using GatherInput = Actions (GroupProtocol::*)(absl::Time, absl::StatusOr<GatherResult>);
  void Gather(const std::string& key, const std::string& value, absl::Time deadline,
              const char* name, GatherInput input);
  void OnGathered(const char* name, GatherInput input, const absl::StatusOr<GatherResult>& result);
  void OnReleased(absl::string_view what);

  // Remembers how much patience a peer that closes has.
  void Hear(const GroupRecord& record);
  void Learn(const absl::StatusOr<CompareAndSetResult>& written);

  // The owner's program: some collectives, then perhaps a close.
  void Plan();
  void PlanEnd();
  void WorkOn();
  void EndWork();
  bool MayWork(int64_t number) const;
  void OnWorkDone(int64_t number, const absl::Status& status);
  void OnWorkLate(int64_t number);
  void ReportWhenDrained();
  void LetGo();
  void AnswerHolders();

  World* const world_;
  Host* const host_;
  const std::string name_;
  GroupProtocol protocol_;
  Life life_;
  std::string id_;
  const bool calm_;
  bool executing_ = false;
  Executor::TimerId timer_ = 0;
  std::string fabric_group_;
  bool was_aborted_ = false;
  bool asked_ = false;  // who holds it
  bool voting_ = false;

  // The gate: which collectives are let in.
  int64_t issued_ = 0;
  int64_t completed_ = 0;
  bool in_flight_ = false;
  bool owner_closed_ = false;
  bool draining_ = false;
  int64_t limit_ = 0;
  bool drain_reported_ = false;
  Executor::TimerId operation_timer_ = 0;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_ATTEMPT_H_
