#include "muster/tools/bench/gloo_subject.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gloo/allreduce.h"
#include "gloo/barrier.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/file_store.h"
#include "gloo/rendezvous/prefix_store.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/device.h"
#include "gloo/transport/tcp/device.h"
#include "muster/core/platform/executor.h"
#include "muster/core/platform/monotonic_clock.h"
#include "muster/core/store/blocking_store.h"
#include "muster/core/store/store.h"
#include "muster/tools/bench/subject.h"

namespace muster {
namespace bench {
namespace {

// gloo throws; here it ends.
absl::Status Failed(absl::string_view what, const std::exception& e) {
  return absl::UnavailableError(absl::StrCat(what, ": ", e.what()));
}

class BlockingGlooStore final : public ::gloo::rendezvous::Store {
 public:
  BlockingGlooStore(muster::Store* store, const Executor* executor) : store_(store, executor) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    Throw(store_
              .Set(key, absl::string_view(data.data(), data.size()), Lifetime::kSession,
                   MonotonicNow() + kStepTimeout)
              .status());
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<Entry> entry = store_.WaitForKey(key, MonotonicNow() + kStepTimeout);
    Throw(entry.status());
    return std::vector<char>(entry->value.begin(), entry->value.end());
  }
  void wait(const std::vector<std::string>& keys) override {
    const absl::Time deadline = MonotonicNow() + kStepTimeout;
    for (const std::string& key : keys) Throw(store_.WaitForKey(key, deadline).status());
  }

 private:
  static void Throw(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

  BlockingStore store_;
};

}  // namespace

GlooSubject::GlooSubject(const std::string& name, int rank, int size,
                         std::shared_ptr<::gloo::rendezvous::Store> store, bool prompt)
    : name_(name), rank_(rank), size_(size), store_(std::move(store)), prompt_(prompt) {}

absl::StatusOr<std::shared_ptr<::gloo::Context>> GlooSubject::Connect() {
  try {
    std::shared_ptr<::gloo::transport::Device> device =
        ::gloo::transport::tcp::CreateDevice("127.0.0.1");
    if (prompt_) static_cast<::gloo::transport::tcp::Device&>(*device).setPrompt();
    auto context = std::make_shared<::gloo::rendezvous::Context>(rank_, size_);
    context->setTimeout(absl::ToChronoMilliseconds(kStepTimeout));
    context->connectFullMesh(std::make_shared<::gloo::rendezvous::PrefixStore>(
                                 absl::StrCat(name_, "/", ++generation_), store_),
                             device);
    // A rank that connected first may not go before the others did: gloo would fail them. Muster
    // gives a group only when all ranks have it, so the comparison needs it, too.
    ::gloo::BarrierOptions barrier(context);
    ::gloo::barrier(barrier);
    return std::shared_ptr<::gloo::Context>(std::move(context));
  } catch (const std::exception& e) {
    return Failed("cannot connect", e);
  }
}

absl::StatusOr<absl::Duration> GlooSubject::CreateAndDestroy() {
  const absl::Time begin = MonotonicNow();
  absl::StatusOr<std::shared_ptr<::gloo::Context>> context = Connect();
  if (!context.ok()) return context.status();
  context->reset();  // the device goes with its last user
  return MonotonicNow() - begin;
}

absl::Status GlooSubject::Open() {
  absl::StatusOr<std::shared_ptr<::gloo::Context>> context = Connect();
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  return absl::OkStatus();
}

absl::Status GlooSubject::Close() {
  context_.reset();
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> GlooSubject::AllReduce(int64_t count, int iterations) {
  return TimeAllReduce(
      rank_, size_, count, iterations, [this](absl::Span<float> values) -> absl::Status {
        try {
          ::gloo::AllreduceOptions options(context_);
          options.setOutput(values.data(), values.size());
          void (*const sum)(void*, const void*, const void*, size_t) = &::gloo::sum<float>;
          options.setReduceFunction(sum);
          ::gloo::allreduce(options);
        } catch (const std::exception& e) {
          return Failed("all_reduce", e);
        }
        return absl::OkStatus();
      });
}

std::shared_ptr<::gloo::rendezvous::Store> GlooStoreOver(Store* store, const Executor* executor) {
  return std::make_shared<BlockingGlooStore>(store, executor);
}

absl::StatusOr<std::shared_ptr<::gloo::rendezvous::Store>> GlooFileStore(
    const std::string& folder) {
  try {
    return std::shared_ptr<::gloo::rendezvous::Store>(
        std::make_shared<::gloo::rendezvous::FileStore>(folder));
  } catch (const std::exception& e) {
    return Failed(absl::StrCat("cannot make a store in ", folder), e);
  }
}

}  // namespace bench
}  // namespace muster
