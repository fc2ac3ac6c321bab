// One process of a simulated rank, from its start to its death: a session with the store and one
// group after the other.
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
  void Kill();  // SIGKILL; its connection closes soon, or its host is gone and only heartbeats tell
  void Exit();  // leaves the store in good order, the group in none
  void LoseStore();                     // the connection breaks, the process lives
  void Pause(absl::Duration duration);  // SIGSTOP, SIGCONT
  void Resume();
  // Its owner wants no group any more.
  void CloseAll();
  // The orderly end: when no group is left.
  void Leave();

  bool dead() const { return dead_; }
  bool paused() const { return paused_; }
  // Alive, but of no use: the store is lost and the last group has ended.
  bool spent() const { return store_lost_ && !busy(); }
  bool busy() const { return current_ != nullptr && !current_->terminal(); }
  int rank() const { return rank_; }
  void CheckBounds();
  void Report(Checker& checker) const;

  // Host
  void Run(std::function<void()> step) override;
  store_internal::ClientCore& client() override { return *client_; }
  void Learn(Revision revision, const GroupRecord& record) override;
  void OnTerminal() override;

 private:
  void Beat();
  void OnSessions(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnRecords(absl::StatusOr<std::vector<WatchEvent>> events);
  void OnStoreLost(const absl::Status& why);
  void After(absl::Duration delay, std::function<void(Process&)> step);
  void NextAttempt();
  Introduction Introduce();

  World* const world_;
  const int rank_;
  const uint64_t incarnation_;
  const std::function<void(const Attempt&)> ended_;
  std::shared_ptr<store_internal::ClientCore> client_;
  std::shared_ptr<Link> link_;

  bool dead_ = false;
  bool left_ = false;
  bool paused_ = false;
  bool store_lost_ = false;
  absl::Time paused_at_;
  std::deque<std::function<void()>> held_;

  bool have_sessions_ = false;
  bool have_records_ = false;
  std::map<int, SessionRecord> sessions_;
  Revision record_revision_ = 0;
  std::optional<GroupRecord> record_;

  std::vector<std::shared_ptr<Attempt>>
      attempts_;  // late news still comes to those that have ended
  Attempt* current_ = nullptr;
};

}  // namespace muster::simulation

#endif  // MUSTER_CORE_LIFECYCLE_SIMULATION_PROCESS_H_
