#include "muster/trainer/fit_loop.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "muster/trainer/agreement.h"
#include "muster/trainer/parameter_agreement.h"

namespace muster {
namespace {

absl::string_view Word(Remainder remainder) {
  switch (remainder) {
    case Remainder::kPad:
      return "pad";
    case Remainder::kDrop:
      return "drop";
    case Remainder::kExact:
      return "exact";
  }
  return "unknown";
}

absl::string_view Word(LearningRateSchedule schedule) {
  return schedule == LearningRateSchedule::kConstant ? "constant" : "linear";
}

std::string Describe(absl::string_view label, const EpochResult& result) {
  std::string text = absl::StrCat(label, ": ", result.training.ToString());
  if (result.validation.has_value()) {
    absl::StrAppend(&text, ", validation ", result.validation->ToString());
  }
  absl::StrAppendFormat(&text, ", %.0f samples/s, %.1f s", result.samples_per_second,
                        absl::ToDoubleSeconds(result.duration));
  return text;
}

}  // namespace

absl::Status FitOptions::Validate(int world_size) const {
  if (max_epochs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_epochs is ", max_epochs, ": give at least 1"));
  }
  absl::Status status = BatchSizeOfRank(world_size).status();
  if (!status.ok()) return status;
  if (remainder == Remainder::kExact) {
    return absl::InvalidArgumentError(
        "remainder is exact, which gives ranks different numbers of batches: training takes pad or "
        "drop");
  }
  status = sgd.Validate();
  if (!status.ok()) return status;
  return buckets.Validate();
}

absl::StatusOr<int64_t> FitOptions::BatchSizeOfRank(int world_size) const {
  if (global_batch_size < 0 || global_batch_size % world_size != 0) {
    return absl::InvalidArgumentError(absl::StrCat("global_batch_size is ", global_batch_size,
                                                   ": give a multiple of the ", world_size,
                                                   " ranks, or 0 to use batch_size"));
  }
  if (global_batch_size > 0) return global_batch_size / world_size;
  if (batch_size > 0) return batch_size;
  return absl::InvalidArgumentError(
      absl::StrCat("batch_size is ", batch_size, ": give at least 1"));
}

FitLoop::FitLoop(const StageContext& context, Module& module, Dataset& train, Dataset* validation,
                 const FitOptions& options, EpochCallback on_epoch)
    : context_(context),
      module_(module),
      train_(train),
      validation_(validation),
      options_(options),
      on_epoch_(std::move(on_epoch)),
      batch_size_(options.BatchSizeOfRank(context.collectives.size()).value_or(0)) {}

FitLoop::~FitLoop() {
  if (reducer_ == nullptr) return;
  // Waits for reductions in flight, if an error or an exception left any, while their memory is
  // still there.
  reducer_->Cancel();
  module_.PlaceGradients({});
}

SamplerOptions FitLoop::MakeSamplerOptions() const {
  SamplerOptions sampler;
  sampler.size = train_.size();
  sampler.rank = context_.collectives.rank();
  sampler.world_size = context_.collectives.size();
  sampler.seed = options_.seed;
  sampler.remainder = options_.remainder;
  return sampler;
}

absl::Status FitLoop::ValidateHere() const {
  absl::Status status = options_.Validate(context_.collectives.size());
  if (!status.ok()) return status;
  status = DistributedSampler::Create(MakeSamplerOptions()).status();
  if (!status.ok()) return Annotate(status, "training data");
  if (validation_ != nullptr && validation_->size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation data: the data set has ", validation_->size(),
                     " samples: give at least one, or no validation data"));
  }
  return ValidateParameters(module_.parameters());
}

absl::Status FitLoop::Prepare() {
  Collectives& collectives = context_.collectives;
  const absl::Span<const Parameter> parameters = module_.parameters();
  const absl::Status here = Annotate(ValidateHere(), "fit");
  int64_t batches = 0;
  if (here.ok()) {
    sampler_.emplace(*DistributedSampler::Create(MakeSamplerOptions()));
    batches = sampler_->batches(batch_size_);
  }
  const std::vector<Fact> facts = {
      Fact::Word("stage", "fit"),
      Fact::Integer("parameters", static_cast<int64_t>(parameters.size())),
      Fact::Integer("training samples", train_.size()),
      Fact::Integer("validation samples", validation_ == nullptr ? -1 : validation_->size()),
      Fact::Integer("global_batch_size", options_.global_batch_size),
      Fact::Integer("batch_size", batch_size_),
      Fact::Integer("batches in an epoch", batches),
      Fact::Integer("max_epochs", options_.max_epochs),
      Fact::Real("learning_rate", options_.sgd.learning_rate),
      Fact::Word("schedule", Word(options_.schedule)),
      Fact::Real("momentum", options_.sgd.momentum),
      Fact::Real("weight_decay", options_.sgd.weight_decay),
      Fact::Integer("seed", static_cast<int64_t>(options_.seed)),
      Fact::Word("remainder", Word(options_.remainder)),
      Fact::Integer("bucket_bytes", options_.buckets.bucket_bytes),
      Fact::Integer("first_bucket_bytes", options_.buckets.first_bucket_bytes),
  };
  absl::Status status = Agree(collectives, here, facts);
  if (!status.ok()) return status;

  auto reducer = std::make_unique<Reducer>(collectives, parameters, options_.buckets);
  status = VerifySameModel(collectives, parameters, reducer->layout());
  if (!status.ok()) return status;
  status = BroadcastParameters(collectives, parameters);
  if (!status.ok()) return status;
  status = VerifySameValues(collectives, parameters, "fit, after the broadcast from rank 0");
  if (!status.ok()) return status;

  reducer_ = std::move(reducer);
  sgd_.emplace(parameters, options_.sgd);
  memory_.emplace(train_.fields(),
                  std::min(batch_size_, static_cast<int64_t>(sampler_->indices().size())));
  if (validation_ != nullptr) evaluator_.emplace(context_, module_, *validation_, batch_size_);
  module_.PlaceGradients(reducer_->gradients());
  return absl::OkStatus();
}

absl::Status FitLoop::Run() {
  for (int64_t epoch = 1; epoch <= options_.max_epochs; ++epoch) {
    EpochResult result;
    result.epoch = epoch;
    absl::Status status = RunEpoch(result);
    if (!status.ok()) return status;
    context_.progress.Line(Describe(Label(epoch), result));
    results_.push_back(result);
    // Whoever stops, all ranks stop here, between two steps: nobody is left waiting in the next
    // one, and the group stays usable.
    const absl::Status here = Annotate(on_epoch_(result), Label(epoch));
    status = Agree(context_.collectives, here, {});
    known_to_all_ = !status.ok();
    if (!status.ok()) return status;
  }
  // Equal steps from equal weights: a difference here is a broken machine, a broken backend or a
  // module that draws its own lots.
  const absl::Status same =
      VerifySameValues(context_.collectives, module_.parameters(), "fit, after the last step");
  known_to_all_ = !same.ok();
  return same;
}

absl::Status FitLoop::RunEpoch(EpochResult& result) {
  sampler_->SetEpoch(result.epoch - 1);
  const std::string label = Label(result.epoch);
  const int64_t batches = sampler_->batches(batch_size_);
  const int world_size = context_.collectives.size();
  const absl::Time start = context_.now();
  MetricSums here;
  for (int64_t b = 0; b < batches; ++b) {
    absl::Status status = Step(sampler_->batch(b, batch_size_), here);
    if (!status.ok()) return Annotate(status, absl::StrCat(label, ", batch ", b + 1));
    const double seconds = absl::ToDoubleSeconds(context_.now() - start);
    context_.progress.Update(label, b + 1, batches, here,
                             seconds > 0 ? here.count * world_size / seconds : 0);
  }
  absl::StatusOr<MetricSums> training = ReduceMetrics(context_.collectives, here);
  if (!training.ok()) return training.status();
  result.training = *training;
  result.duration = context_.now() - start;
  const double seconds = absl::ToDoubleSeconds(result.duration);
  const double samples = static_cast<double>(sampler_->indices().size()) * world_size;
  result.samples_per_second = seconds > 0 ? samples / seconds : 0;
  if (evaluator_.has_value()) {
    absl::StatusOr<MetricSums> validation = evaluator_->Run(absl::StrCat(label, " validation"));
    if (!validation.ok()) return validation.status();
    result.validation = *validation;
  }
  return absl::OkStatus();
}

absl::Status FitLoop::Step(absl::Span<const int64_t> indices, MetricSums& sums) {
  Batch& batch = memory_->Resize(static_cast<int64_t>(indices.size()));
  absl::Status status = train_.Read(indices, batch);
  if (!status.ok()) return status;
  reducer_->StartStep();
  // Placing its gradients may have moved them: ask where they are now.
  const absl::Span<const Parameter> parameters = module_.parameters();
  status = module_.TrainStep(
      batch,
      [&](int index) {
        const bool known = index >= 0 && index < static_cast<int>(parameters.size());
        reducer_->Ready(index, known ? parameters[index].gradient : Buffer());
      },
      sums);
  if (!status.ok()) return status;
  status = reducer_->FinishStep();
  if (!status.ok()) return status;
  sgd_->set_learning_rate(LearningRate());
  sgd_->Step(reducer_->gradients());
  ++steps_;
  return absl::OkStatus();
}

double FitLoop::LearningRate() const {
  const double start = options_.sgd.learning_rate;
  if (options_.schedule == LearningRateSchedule::kConstant) return start;
  // In doubles: max_epochs may be INT64_MAX, for whoever stops by a callback.
  const double steps = static_cast<double>(options_.max_epochs) *
                       static_cast<double>(sampler_->batches(batch_size_));
  return start * (1 - static_cast<double>(steps_) / steps);
}

std::string FitLoop::Label(int64_t epoch) const {
  return absl::StrCat("fit ", epoch, "/", options_.max_epochs);
}

}  // namespace muster
