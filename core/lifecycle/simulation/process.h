// One process of a simulated rank, from its start to its death: a session with the store and, in
// its pool, one group after the other under each name.
#ifndef MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_H_
#define MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "muster/core/lifecycle/simulation/attempt.h"
#include "muster/core/lifecycle/simulation/process_clock.h"
#include "muster/core/lifecycle/simulation/world.h"
#include "muster/core/store/session_record.h"

namespace muster::simulation {

class Process final : public Host, public std::enable_shared_from_this<Process> {
 public:
  // `ended` runs when a group of this process is terminal.
  Process(World* world, int rank, uint64_t incarnation, std::function<void(const Attempt&)> ended);

  // The store may refuse it: then this process was never there.
  absl::Status Begin();

  // --- what happens to it
  // SIGKILL; its connection closes soon, or its host is gone and only heartbeats tell.
  void Kill(bool host_is_gone);
  void Exit();                          // leaves the store in good order, the group in none
  void LoseStore();                     // the connection breaks, the process lives
  void LoseSession();                   // the store declares it lost, and it is not
  void Pause(absl::Duration duration);  // SIGSTOP, SIGCONT
  void Resume();
  void Slow(absl::Duration duration);
  void JumpClock(absl::Duration by);
  // Acquires every name, one after the other, unless it has groups; again when they have ended.
  void NextRound();
  // Its owner wants no group any more.
  void CloseAll();
  // The orderly end: when no group is left.
  void Leave();

  bool dead() const { return dead_; }
  bool paused() const { return paused_; }
  // Alive, but of no use: the store is lost and the last group has ended.
  bool spent() const { return store_lost_ && !busy(); }
  bool busy() const;
  int rank() const { return rank_; }
  void CheckBounds();
  void Report(Checker& checker) const;

  // Host
  void Run(std::function<void()> step) override;
  store_internal::ClientCore& client() override { return *client_; }
  Executor& clock() override { return *clock_; }
  int era() const override { return era_; }
  void Learn(const std::string& name, Revision revision, const GroupRecord& record) override;
  void OnChanged(Attempt& attempt) override;
  void AcquireAgain(Attempt& attempt, bool another) override;

 private:
  // Of one name.
  struct Slot {
    std::shared_ptr<Attempt> current;
    Revision revision = 0;
    std::optional<GroupRecord> record;
  };

  void Beat();
  void OnSessions(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnRecords(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnStoreLost(const absl::Status& why);
  // The program, in the order of time.
  void After(absl::Duration delay, std::function<void(Process&)> step);
  void ForEachLive(const std::function<void(Attempt&)>& tell);
  void Die();
  std::string LastWords() const;
  // Within which both ends notice a broken connection.
  static constexpr absl::Duration kNoticesCutOff = absl::Milliseconds(200);
  void NoteGone(absl::Duration within, bool ends_meetings = true);
  void RunLate(const std::function<void()>& step);

  void AcquireNext();
  void Make(const std::string& name);
  Introduction Introduce();

  World* const world_;
  const int rank_;
  const uint64_t incarnation_;
  const SessionInfo info_;
  const int era_;
  const std::function<void(const Attempt&)> ended_;
  std::shared_ptr<ProcessClock> clock_;
  std::shared_ptr<store_internal::ClientCore> client_;
  std::shared_ptr<Link> link_;

  bool dead_ = false;
  bool left_ = false;
  bool cut_off_ = false;     // from the store
  bool store_lost_ = false;  // and was told so
  bool paused_ = false;
  absl::Time paused_at_;
  std::deque<std::function<void()>> held_;
  absl::Time slow_until_ = absl::InfinitePast();
  absl::Time late_until_ = absl::InfinitePast();  // when the last step that waits will run
  int late_ = 0;                                  // steps that wait

  bool have_sessions_ = false;
  bool have_records_ = false;
  std::map<int, SessionRecord> sessions_;
  std::map<std::string, Slot> slots_;
  std::vector<std::shared_ptr<Attempt>>
      attempts_;  // late news still comes to those that have ended
  std::deque<std::string> to_acquire_;
  const Attempt* acquiring_ = nullptr;
  int rounds_ = 0;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_H_
