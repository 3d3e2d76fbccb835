#include "train.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <lockstep/recovery.h>
#include <lockstep/report.h>
#include <lockstep/train.h>

#include "checkpoints.h"
#include "data.h"
#include "model.h"
#include "progress.h"

namespace gpt {
namespace {

using lockstep::Code;
using lockstep::Error;
using lockstep::ReduceOp;

constexpr std::int64_t kHeldOutBytes = 32 << 10;

// Set by SIGTERM. The ranks get it at different moments; see StepNews.
std::atomic<bool> told_to_stop = false;

// The values that the ranks exchange once a step, in one small transfer that overlaps with
// backward: the loss, and whether a rank got a stop request or wants a checkpoint, so that all act
// after the same step.
class StepNews {
 public:
  StepNews(lockstep::Group group, double loss, bool save) : ranks_(group.size()) {
    sums_ = at::tensor({loss, told_to_stop ? 1.0 : 0.0, save ? 1.0 : 0.0}, at::kDouble);
    transfer_ = group.all_reduce(sums_, ReduceOp::sum, "the step's results");
  }
  Result<void> wait() { return transfer_.wait(); }
  double loss() const { return sums_[0].item<double>() / ranks_; }
  bool stop() const { return sums_[1].item<double>() > 0; }
  bool save() const { return sums_[2].item<double>() > 0; }

 private:
  int ranks_;
  at::Tensor sums_;
  lockstep::Transfer transfer_;
};

// Linear up to the peak, then a cosine down to a twentieth of it.
double learning_rate(const TrainOptions& options, std::int64_t step) {
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(options.warmup);
  if (at < warmup) return options.learning_rate * (at + 1) / warmup;
  const double left = static_cast<double>(options.steps) - warmup;
  const double done = left > 0 ? std::min(1.0, (at - warmup) / left) : 1.0;
  const double cosine = (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.learning_rate * (0.05 + 0.95 * cosine);
}

// Gathers each block's parameters while it runs.
at::Tensor loss_of(const Gpt& model, lockstep::ShardedModel& sharded, const at::Tensor& bytes,
                   const at::Tensor& next) {
  return model.loss(bytes, next,
                    [&](const Block& block, const at::Tensor& x) { return sharded(block, x); });
}

// The mean over windows that are evenly spaced over the held-out text, divided among the ranks.
Result<double> held_out_loss(const Gpt& model, lockstep::ShardedModel& sharded, const Text& text) {
  const at::NoGradGuard no_grad;
  auto world = sharded.group();
  const auto context = model.options().context;
  const auto share = std::max<std::int64_t>(1, kHeldOutBytes / context / world.size());
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < share; ++i)
    starts.push_back((i * world.size() + world.rank()) * text.windows(context) /
                     (share * world.size()));
  const auto batch = text.batch(starts, context);
  const double sum =
      LOCKSTEP_TRY(world.all_reduce(loss_of(model, sharded, batch.bytes, batch.next).item<double>(),
                                    ReduceOp::sum, "the held-out loss"));
  return sum / world.size();
}

// Forward and backward of one rank's share in parts; the exchange of StepNews overlaps with the
// last. The gradient is the mean over all ranks' samples, for any distribution of samples. save:
// true if this rank wants a checkpoint of the step.
Result<StepNews> compute_gradients(const Gpt& model, lockstep::ShardedModel& sharded,
                                   const Text& text, const lockstep::Sampler& sampler,
                                   const std::vector<lockstep::MicroBatch>& parts, bool save) {
  std::optional<StepNews> news;
  double sum = 0;
  for (const auto& part : parts) {
    const bool last = &part == &parts.back();
    const auto batch = text.batch(sampler.peek(part.begin, part.end), model.options().context);
    const auto loss = loss_of(model, sharded, batch.bytes, batch.next) * part.weight;
    sum += loss.item<double>() / static_cast<double>(parts.size());
    if (last) news.emplace(sharded.group(), sum, save);
    LOCKSTEP_TRY(sharded.backward(loss, last ? lockstep::Sync::now : lockstep::Sync::later));
  }
  LOCKSTEP_TRY(sharded.finish_gradients());
  return *std::move(news);
}

Result<void> check_batch(const TrainOptions& options, int ranks) {
  if (options.batch % (ranks * options.micro_steps) == 0) return {};
  return Error{Code::invalid, "--batch " + std::to_string(options.batch) +
                                  " does not divide among " + std::to_string(ranks) + " ranks x " +
                                  std::to_string(options.micro_steps) +
                                  " micro-steps: choose a multiple"};
}

lockstep::OptimizerOptions optimizer_options(const TrainOptions& options) {
  return {.method = lockstep::AdamW{.beta2 = 0.98, .weight_decay = options.weight_decay},
          .learning_rate = options.learning_rate,
          .clip_norm = options.clip_norm};
}

// A training with all its objects. Ranks may be lost in it: objects that depend on their groups are
// then recreated.
class Run {
 public:
  static Result<std::unique_ptr<Run>> start(const TrainOptions& options);

  // Steps until the end, or until any rank gets a stop request.
  Result<Outcome> train();

 private:
  explicit Run(const TrainOptions& options) : options_(options), model_(options.model) {}
  Result<void> open_checkpoints();
  Result<void> turn();
  Result<void> step();
  Result<bool> recover(const Error& cause);
  lockstep::RecoverableTraining training() {
    return {*sharded_, *optimizer_, *sampler_, [this] { return open_checkpoints(); }};
  }
  std::int64_t bytes_a_step() const { return sampler_->global_batch() * options_.model.context; }

  const TrainOptions& options_;
  Gpt model_;
  std::optional<Corpus> corpus_;
  std::optional<lockstep::Recovery> recovery_;
  std::optional<lockstep::Sampler> sampler_;
  lockstep::Reporter reporter_{lockstep::Reporter::WithoutRun::discard};
  std::optional<lockstep::ShardedModel> sharded_;
  std::optional<lockstep::Optimizer> optimizer_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<ProgressPrinter> progress_;
  std::int64_t at_once_ = 1;  // windows that a rank computes at once
  std::int64_t step_ = 0;     // steps that are done
  bool stop_ = false;
  bool save_ = false;
  bool over_ = false;
};

Result<std::unique_ptr<Run>> Run::start(const TrainOptions& options) {
  std::unique_ptr<Run> run(new Run(options));
  run->recovery_ = LOCKSTEP_TRY(lockstep::Recovery::start(
      {.connect = {.backend = options.backend},
       .checkpoint_folder = options.checkpoints,
       .batch_scaling = options.rescale_batch ? lockstep::BatchScaling::rescaled
                                              : lockstep::BatchScaling::fixed}));
  const auto group = LOCKSTEP_TRY(run->recovery_->group());
  LOCKSTEP_TRY(check_batch(options, group.size()));
  run->at_once_ = options.batch / (group.size() * options.micro_steps);
  run->corpus_ = LOCKSTEP_TRY(read_corpus(options.data, options.model.context));
  run->sampler_ = LOCKSTEP_TRY(lockstep::Sampler::create(
      run->corpus_->train.windows(options.model.context), options.batch, options.seed));
  run->sharded_ = LOCKSTEP_TRY(lockstep::shard(
      run->model_, group, {.policy = options.policy, .blocks = run->model_.blocks()}));
  run->optimizer_ =
      LOCKSTEP_TRY(lockstep::Optimizer::create(*run->sharded_, optimizer_options(options)));
  return run;
}

Result<void> Run::open_checkpoints() {
  checkpoints_.reset();  // waits for the save in flight
  const int rank = sharded_->group().rank();
  checkpoints_ = LOCKSTEP_TRY(Checkpoints::open(options_, *recovery_, rank));
  return {};
}

Result<Outcome> Run::train() {
  const bool joins = recovery_->is_replacement();
  if (joins) {
    step_ = LOCKSTEP_TRY(recovery_->complete_replacement(training())).step;
  } else {
    LOCKSTEP_TRY(open_checkpoints());
    step_ = LOCKSTEP_TRY(checkpoints_->resume(*sharded_, *optimizer_, *sampler_));
  }
  progress_.emplace(reporter_, sharded_->group().rank(), step_, options_.steps, bytes_a_step());
  // Not before: only a step checks it, and a program that has nothing to save may end at once.
  std::signal(SIGTERM, [](int) { told_to_stop = true; });
  // After the last step the other ranks may still evaluate and save: a rank that joins them takes
  // part.
  over_ = !joins && step_ >= options_.steps;
  while (!over_) {
    const auto done = turn();
    if (!done && !LOCKSTEP_TRY(recover(done.error()))) return Outcome::finished;
  }
  LOCKSTEP_TRY(checkpoints_->finish());
  progress_->summary(step_);
  return step_ < options_.steps ? Outcome::stopped : Outcome::finished;
}

// A step and what follows it: the held-out loss, a checkpoint.
Result<void> Run::turn() {
  LOCKSTEP_TRY(recovery_->begin_step(step_, training()));
  if (step_ < options_.steps && !stop_) LOCKSTEP_TRY(step());
  const bool last = step_ == options_.steps || stop_;
  if (step_ % options_.evaluate_every == 0 || last)
    progress_->held_out(step_, LOCKSTEP_TRY(held_out_loss(model_, *sharded_, corpus_->held_out)));
  if (save_ || last) LOCKSTEP_TRY(checkpoints_->save(step_, *sharded_, *optimizer_, *sampler_));
  if (last) LOCKSTEP_TRY(checkpoints_->finish());
  over_ = last;
  return {};
}

Result<void> Run::step() {
  const auto group = sharded_->group();
  const auto parts = LOCKSTEP_TRY(
      lockstep::micro_batches_of({sampler_->global_batch(), at_once_}, group.rank(), group.size()));
  auto news = LOCKSTEP_TRY(compute_gradients(model_, *sharded_, corpus_->train, *sampler_, parts,
                                             checkpoints_->due(step_ + 1)));
  optimizer_->set_learning_rate(learning_rate(options_, step_));
  const auto taken = LOCKSTEP_TRY(optimizer_->step());
  sampler_->advance();
  LOCKSTEP_TRY(news.wait());
  stop_ = news.stop();
  save_ = news.save();
  ++step_;
  if (!taken.non_finite.empty() && group.rank() == 0) {
    const auto description = "step " + std::to_string(step_) + " is not taken: " + taken.non_finite;
    progress_->print_event(description);
    reporter_.event(step_, description);
  }
  if (taken.flops) reporter_.metric(step_, "flops", *taken.flops);  // each rank, of its own
  progress_->step(step_, news.loss(), optimizer_->learning_rate(), taken.gradient_norm);
  return {};
}

// Reopens the checkpoints; false if no replica needs this rank any more.
Result<bool> Run::recover(const Error& cause) {
  const auto recovered = LOCKSTEP_TRY(recovery_->recover(cause, training()));
  step_ = recovered.step;
  save_ = false;
  if (recovered.leaves) {
    progress_->print_event(recovered.description);
    return false;
  }
  progress_->continue_with(sharded_->group().rank() == 0, bytes_a_step());
  if (recovered.reports) {
    progress_->print_event(recovered.description);
    reporter_.event(step_, recovered.description);
  }
  return true;
}

}  // namespace

lockstep::Result<Outcome> train(const TrainOptions& options) {
  return LOCKSTEP_TRY(Run::start(options))->train();
}

}  // namespace gpt
