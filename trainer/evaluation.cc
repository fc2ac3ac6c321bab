#include "muster/trainer/evaluation.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "muster/trainer/agreement.h"
#include "muster/trainer/bucket_layout.h"
#include "muster/trainer/parameter_agreement.h"

namespace muster {
namespace {

DistributedSampler ExactSampler(const Collectives& collectives, const Dataset& data) {
  SamplerOptions options;
  options.size = data.size();
  options.rank = collectives.rank();
  options.world_size = collectives.size();
  options.shuffle = false;
  options.remainder = Remainder::kExact;
  return *DistributedSampler::Create(options);  // kExact takes every size
}

}  // namespace

Evaluator::Evaluator(const StageContext& context, Module& module, Dataset& data, int64_t batch_size)
    : context_(context),
      module_(module),
      data_(data),
      batch_size_(batch_size),
      sampler_(ExactSampler(context.collectives, data)),
      memory_(data.fields(),
              std::min(batch_size,
                       std::max<int64_t>(1, static_cast<int64_t>(sampler_.indices().size())))) {}

absl::StatusOr<MetricSums> Evaluator::Run(absl::string_view label) {
  MetricSums here;
  const int64_t batches = sampler_.batches(batch_size_);
  const absl::Time start = context_.now();
  for (int64_t b = 0; b < batches; ++b) {
    const absl::Span<const int64_t> indices = sampler_.batch(b, batch_size_);
    Batch& batch = memory_.Resize(static_cast<int64_t>(indices.size()));
    absl::Status status = data_.Read(indices, batch);
    if (status.ok()) status = module_.EvaluateStep(batch, here);
    if (!status.ok()) return Annotate(status, absl::StrCat(label, ", batch ", b + 1));
    const double seconds = absl::ToDoubleSeconds(context_.now() - start);
    context_.progress.Update(label, b + 1, batches, here,
                             seconds > 0 ? here.count * context_.collectives.size() / seconds : 0);
  }
  return ReduceMetrics(context_.collectives, here);
}

EvaluationLoop::EvaluationLoop(const StageContext& context, absl::string_view stage, Module& module,
                               Dataset& data, const absl::StatusOr<int64_t>& batch_size)
    : context_(context), stage_(stage), module_(module), data_(data), batch_size_(batch_size) {}

absl::Status EvaluationLoop::ValidateHere() const {
  if (!batch_size_.ok()) return Annotate(batch_size_.status(), stage_);
  if (data_.size() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(stage_, ": the data set has ", data_.size(),
                                                   " samples: there is nothing to evaluate"));
  }
  return Annotate(ValidateParameters(module_.parameters()), stage_);
}

absl::Status EvaluationLoop::Prepare() {
  Collectives& collectives = context_.collectives;
  const absl::Span<const Parameter> parameters = module_.parameters();
  const std::vector<Fact> facts = {
      Fact::Word("stage", stage_),
      Fact::Integer("parameters", static_cast<int64_t>(parameters.size())),
      Fact::Integer("samples", data_.size()),
      Fact::Integer("batch_size", batch_size_.value_or(0)),
  };
  absl::Status status = Agree(collectives, ValidateHere(), facts);
  if (!status.ok()) return status;
  status = VerifySameModel(collectives, parameters, BucketLayout::Plan(parameters, {}));
  if (!status.ok()) return status;
  status = VerifySameValues(collectives, parameters, stage_);
  if (!status.ok()) return status;
  evaluator_.emplace(context_, module_, data_, *batch_size_);
  return absl::OkStatus();
}

absl::Status EvaluationLoop::Run() {
  absl::StatusOr<MetricSums> sums = evaluator_->Run(stage_);
  if (!sums.ok()) return sums.status();
  result_ = *sums;
  context_.progress.Line(
      absl::StrFormat("%s: %s, %.0f samples", stage_, result_.ToString(), result_.count));
  return absl::OkStatus();
}

}  // namespace muster
