#include "muster/trainer/in_process_collectives.h"

#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <thread>  // NOLINT: tests only
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "muster/core/collective/reduction.h"

namespace muster {
namespace {

// What one rank brings to one operation.
struct Contribution {
  std::string kind;  // "all_reduce sum", "broadcast from 0"
  ConstBuffer in;
  Buffer out;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
};

void Reduce(const std::vector<Contribution>& ranks) {
  Accumulator accumulator(ranks[0].in.count, ranks[0].in.dtype, ranks[0].op);
  for (const Contribution& rank : ranks) accumulator.Add(rank.in.data);
  const Buffer& result = ranks[0].out;
  accumulator.Finish(result.data, static_cast<int64_t>(ranks.size()));
  for (size_t r = 1; r < ranks.size(); ++r) {
    std::memcpy(ranks[r].out.data, result.data, static_cast<size_t>(result.bytes()));
  }
}

absl::Status Perform(const std::vector<Contribution>& ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].kind != ranks[0].kind || ranks[r].in.count != ranks[0].in.count ||
        ranks[r].in.dtype != ranks[0].in.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", r, " is in ", ranks[r].kind, " of ", ranks[r].in.ToString(),
                       " and rank 0 in ", ranks[0].kind, " of ", ranks[0].in.ToString()));
    }
  }
  if (ranks[0].kind == "all_gather") {
    const size_t bytes = static_cast<size_t>(ranks[0].in.bytes());
    for (size_t r = 0; r < ranks.size(); ++r) {
      for (const Contribution& to : ranks) {
        std::memcpy(static_cast<std::byte*>(to.out.data) + r * bytes, ranks[r].in.data, bytes);
      }
    }
    return absl::OkStatus();
  }
  if (ranks[0].kind == "broadcast") {
    const Contribution& root = ranks[ranks[0].root];
    for (const Contribution& to : ranks) {
      if (&to != &root) {
        std::memcpy(to.out.data, root.in.data, static_cast<size_t>(root.in.bytes()));
      }
    }
    return absl::OkStatus();
  }
  Reduce(ranks);
  return absl::OkStatus();
}

}  // namespace

// Where the contributions to operation n of each rank meet.
class InProcessWorld::Hub {
 public:
  explicit Hub(int size) : size_(size) {}

  int size() const { return size_; }

  // Blocks until all ranks have come to their operation `number`.
  absl::Status Meet(int rank, int64_t number, Contribution mine) {
    absl::MutexLock lock(&mutex_);
    Round& round = rounds_[number];
    if (round.ranks.empty()) round.ranks.resize(size_);
    round.ranks[rank] = std::move(mine);
    if (++round.arrived == size_ && cause_.ok()) {
      round.result = Perform(round.ranks);
      round.done = true;
    }
    const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return round.done || !cause_.ok();
    };
    mutex_.Await(absl::Condition(&over));
    const absl::Status result = round.done ? round.result : cause_;
    if (++round.left == size_) rounds_.erase(number);
    return result;
  }

  void Abort(const absl::Status& cause) {
    absl::MutexLock lock(&mutex_);
    if (cause_.ok()) cause_ = cause;
  }

 private:
  struct Round {
    std::vector<Contribution> ranks;
    int arrived = 0;
    int left = 0;
    bool done = false;
    absl::Status result;
  };

  const int size_;
  absl::Mutex mutex_;
  std::map<int64_t, Round> rounds_ ABSL_GUARDED_BY(mutex_);
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
};

// One rank: a queue and the thread that works it off.
class InProcessWorld::Rank final : public Collectives {
 public:
  Rank(Hub& hub, int rank) : hub_(hub), rank_(rank), thread_([this] { Work(); }) {}
  ~Rank() override {
    {
      absl::MutexLock lock(&mutex_);
      stop_ = true;
    }
    thread_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return hub_.size(); }

  absl::Status AllReduce(Buffer buffer, ReduceOp op) override {
    return Enqueue({absl::StrCat("all_reduce ", Name(op)), buffer, buffer, op, 0}).Wait();
  }
  absl::Status AllGather(ConstBuffer in, Buffer out) override {
    if (out.count != in.count * size()) {
      return absl::InvalidArgumentError("all_gather: out is not size() times in");
    }
    return Enqueue({"all_gather", in, out, ReduceOp::kSum, 0}).Wait();
  }
  absl::Status Broadcast(Buffer buffer, int root) override {
    return Enqueue({"broadcast", buffer, buffer, ReduceOp::kSum, root}).Wait();
  }
  muster::Work AllReduceAsync(Buffer buffer, ReduceOp op) override {
    return Enqueue({absl::StrCat("all_reduce ", Name(op)), buffer, buffer, op, 0});
  }

 private:
  struct Item {
    Contribution contribution;
    std::shared_ptr<WorkState> state;
  };

  muster::Work Enqueue(Contribution contribution) {
    auto state = std::make_shared<WorkState>();
    absl::MutexLock lock(&mutex_);
    queue_.push_back({std::move(contribution), state});
    return muster::Work(std::move(state));
  }

  void Work() {
    for (int64_t number = 0;; ++number) {
      Item item;
      {
        absl::MutexLock lock(&mutex_);
        const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return stop_ || !queue_.empty();
        };
        mutex_.Await(absl::Condition(&ready));
        if (queue_.empty()) return;
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      item.state->Finish(hub_.Meet(rank_, number, std::move(item.contribution)));
    }
  }

  Hub& hub_;
  const int rank_;
  absl::Mutex mutex_;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses what stands above
};

InProcessWorld::InProcessWorld(int size) : hub_(std::make_unique<Hub>(size)) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(*hub_, rank));
}

InProcessWorld::~InProcessWorld() { Abort(absl::CancelledError("the world ended")); }

int InProcessWorld::size() const { return hub_->size(); }
Collectives& InProcessWorld::rank(int rank) { return *ranks_[rank]; }
void InProcessWorld::Abort(const absl::Status& cause) { hub_->Abort(cause); }

std::vector<absl::Status> RunRanks(int size,
                                   const std::function<absl::Status(Collectives&)>& body) {
  InProcessWorld world(size);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(world.rank(rank));
      if (!results[rank].ok()) {
        world.Abort(
            absl::AbortedError(absl::StrCat("rank ", rank, " left: ", results[rank].message())));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace muster
