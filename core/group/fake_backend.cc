#include "muster/core/group/fake_backend.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "muster/core/platform/monotonic_clock.h"

namespace muster {

class FakeCommunicator final : public Communicator {
 public:
  FakeCommunicator(FakeWorld* world, FakeWorld::Rules rules, std::string group, int size)
      : world_(world), rules_(std::move(rules)), group_(std::move(group)), size_(size) {
    ++world_->live_;
  }
  ~FakeCommunicator() override {
    if (rules_.destructor_hangs) world_->AwaitUnblock();
    --world_->live_;
  }

  absl::Status AllReduce(ConstBuffer in, Buffer out, ReduceOp op,
                         const OperationOptions& options) override {
    if (in.dtype != DataType::kF32 || op != ReduceOp::kSum) {
      return absl::UnimplementedError("the fake only sums f32");
    }
    return Meet(static_cast<const float*>(in.data), static_cast<float*>(out.data), in.count,
                options.deadline);
  }
  absl::Status Barrier(const OperationOptions& options) override {
    return Meet(nullptr, nullptr, 0, options.deadline);
  }

  absl::Status Finalize(absl::Time deadline) override {
    if (rules_.finalize_hangs) world_->AwaitUnblock();
    absl::MutexLock lock(&world_->mutex_);
    if (rules_.finalize_blocks) {
      const auto aborted = [this] { return !cause_.ok(); };
      world_->mutex_.AwaitWithTimeout(absl::Condition(&aborted),
                                      deadline - MonotonicNow() + absl::Hours(1));
      return cause_;
    }
    return rules_.finalize_error;
  }

  void Abort(const absl::Status& cause) noexcept override {
    if (rules_.abort_hangs) world_->AwaitUnblock();
    absl::MutexLock lock(&world_->mutex_);
    if (cause_.ok()) cause_ = cause;
  }

  Holdings Held() const override {
    if (rules_.held_hangs) world_->AwaitUnblock();
    Holdings held;
    held.file_descriptors = 1;
    return held;
  }

 private:
  absl::Status Meet(const float* in, float* out, int64_t count, absl::Time deadline) {
    absl::MutexLock lock(&world_->mutex_);
    ++world_->inside_;
    absl::Status status = MeetLocked(in, out, count, deadline);
    --world_->inside_;
    return status;
  }

  absl::Status MeetLocked(const float* in, float* out, int64_t count, absl::Time deadline) {
    const std::string key = absl::StrCat(group_, "#", number_++);
    if (!rules_.operation_error.ok()) return rules_.operation_error;
    const bool blocks = rules_.operation_blocks;
    if (!blocks) {
      FakeWorld::Round& round = world_->rounds_[key];
      round.sum.resize(count);
      for (int64_t i = 0; i < count; ++i) round.sum[i] += in[i];
      ++round.arrived;
    }
    const auto over = [&] {
      if (rules_.ignores_abort) return world_->unblocked_;
      if (rules_.ignores_deadline && world_->unblocked_) return true;
      return !cause_.ok() || (!blocks && world_->rounds_[key].arrived == size_);
    };
    if (rules_.ignores_deadline) deadline = absl::InfiniteFuture();
    const bool in_time =
        world_->mutex_.AwaitWithTimeout(absl::Condition(&over), deadline - MonotonicNow());
    if (!in_time || !cause_.ok()) {
      if (!blocks) --world_->rounds_[key].arrived;  // so nobody else completes this round
      return in_time ? cause_ : absl::DeadlineExceededError("other ranks did not come");
    }
    FakeWorld::Round& round = world_->rounds_[key];
    if (count > 0) std::memcpy(out, round.sum.data(), count * sizeof(float));
    if (++round.left == size_) world_->rounds_.erase(key);
    return absl::OkStatus();
  }

  FakeWorld* const world_;
  const FakeWorld::Rules rules_;
  const std::string group_;
  const int size_;
  int64_t number_ = 0;
  absl::Status cause_;  // under the world's mutex
};

void FakeWorld::Unblock() {
  absl::MutexLock lock(&mutex_);
  unblocked_ = true;
}

void FakeWorld::AwaitUnblock() {
  absl::MutexLock lock(&mutex_);
  hangs_ = true;
  mutex_.Await(absl::Condition(&unblocked_));
}

void FakeWorld::WaitForHang() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&hangs_));
}

void FakeWorld::WaitForOperations(int count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]()
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return inside_ >= count; };
  mutex_.Await(absl::Condition(&enough));
}

absl::Status FakeBackend::Check(Device device, const std::map<std::string, std::string>&) const {
  if (world_->check_hangs) world_->AwaitUnblock();
  if (device.type == Device::Type::kCpu) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("backend '", name_, "' works on the cpu alone"));
}

absl::StatusOr<std::unique_ptr<Communicator>> FakeBackend::Connect(const ConnectContext& context) {
  auto rules = world_->rules.find(context.rank);
  const FakeWorld::Rules ours = rules == world_->rules.end() ? FakeWorld::Rules() : rules->second;
  if (!ours.connect_error.ok()) return ours.connect_error;
  if (ours.connect_throws) throw std::runtime_error("no such device");
  if (ours.connect_hangs) world_->AwaitUnblock();
  if (ours.connect_blocks) {
    struct Wait {
      absl::Mutex mutex;
      bool cancelled ABSL_GUARDED_BY(mutex) = false;
    } wait;
    auto registration = context.cancellation->OnCancel([&wait](const absl::Status&) {
      absl::MutexLock lock(&wait.mutex);
      wait.cancelled = true;
    });
    absl::MutexLock lock(&wait.mutex);
    if (!wait.mutex.AwaitWithTimeout(absl::Condition(&wait.cancelled),
                                     context.deadline - MonotonicNow())) {
      return absl::DeadlineExceededError("the fake was told to block");
    }
    return context.cancellation->status();
  }
  // As a real backend does: addresses go through the store.
  absl::StatusOr<std::vector<std::string>> addresses =
      context.store->Exchange("address", absl::StrCat("rank ", context.rank), context.deadline);
  if (!addresses.ok()) return addresses.status();
  if (ours.connects_to_nothing) return std::unique_ptr<Communicator>();
  return std::make_unique<FakeCommunicator>(world_, ours, context.group, context.size);
}

}  // namespace muster
