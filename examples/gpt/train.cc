#include "train.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <numbers>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "base/format.h"
#include "checkpoints.h"
#include "connect.h"
#include "data.h"
#include "model.h"
#include "progress.h"
#include "report/reporter.h"
#include "train/mesh.h"
#include "train/optimizer.h"
#include "train/policy.h"
#include "train/sampler.h"
#include "train/shard.h"

namespace lockstep::gpt {
namespace {

constexpr std::int64_t kHeldOutBytes = 32 << 10;

// Set by SIGTERM. The ranks get it at different moments; see StepNews.
std::atomic<bool> told_to_stop = false;

// What the ranks tell each other once a step, in one small transfer that hides behind backward: the
// loss, and whether somebody was told to stop or wants a checkpoint, so that all do it after the
// same step.
class StepNews {
 public:
  StepNews(Comm& world, double loss, bool save) : ranks_(world.size()) {
    sums_ = at::tensor({loss, told_to_stop ? 1.0 : 0.0, save ? 1.0 : 0.0}, at::kDouble);
    transfer_ = world.reduce(sums_, Reduction::sum, "the step's news");
  }
  Result<void> wait() { return transfer_.wait(); }
  double loss() const { return sums_[0].item<double>() / ranks_; }
  bool stop() const { return sums_[1].item<double>() > 0; }
  bool save() const { return sums_[2].item<double>() > 0; }

 private:
  int ranks_;
  at::Tensor sums_;
  Transfer transfer_;
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

// With each block's parameters there while it runs.
at::Tensor loss_of(const Gpt& model, ShardedModel& sharded, const at::Tensor& bytes,
                   const at::Tensor& next) {
  return model.loss(bytes, next,
                    [&](const Block& block, const at::Tensor& x) { return sharded(block, x); });
}

// The mean over windows that lie evenly over the held-out text, shared out to the ranks.
Result<double> held_out_loss(const Gpt& model, ShardedModel& sharded, const Text& text) {
  const at::NoGradGuard no_grad;
  auto& world = sharded.mesh().world();
  const auto context = model.options().context;
  const auto share = std::max<std::int64_t>(1, kHeldOutBytes / context / world.size());
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < share; ++i)
    starts.push_back((i * world.size() + world.rank()) * text.windows(context) /
                     (share * world.size()));
  const auto batch = text.batch(starts, context);
  const double sum =
      TRY(world.reduce(loss_of(model, sharded, batch.bytes, batch.next).item<double>(),
                       Reduction::sum, "the held-out loss"));
  return sum / world.size();
}

// Forward and backward of one rank's share in equal parts; the step's news go with the last.
// save: whether this rank wants a checkpoint of the step.
Result<StepNews> compute_gradients(const Gpt& model, ShardedModel& sharded, const Batch& batch,
                                   std::int64_t parts, bool save) {
  const auto bytes = batch.bytes.chunk(parts);
  const auto next = batch.next.chunk(parts);
  const auto last = static_cast<std::size_t>(parts - 1);
  double sum = 0;
  for (std::size_t part = 0; part < last; ++part) {
    const auto loss = loss_of(model, sharded, bytes[part], next[part]);
    sum += loss.item<double>();
    TRY(sharded.backward(loss, Sync::later));
  }
  const auto loss = loss_of(model, sharded, bytes[last], next[last]);
  sum += loss.item<double>();
  StepNews news(sharded.mesh().world(), sum / static_cast<double>(parts), save);
  TRY(sharded.backward(loss, Sync::now));
  TRY(sharded.finish_gradients());
  return news;
}

Result<void> check_batch(const TrainOptions& options, int ranks) {
  if (options.batch % (ranks * options.micro_steps) == 0) return {};
  return Error{
      Code::invalid,
      format("--batch {} does not divide among {} ranks x {} micro-steps: choose a multiple",
             options.batch, ranks, options.micro_steps)};
}

OptimizerOptions optimizer_options(const TrainOptions& options) {
  return {.method = AdamW{.beta2 = 0.98, .weight_decay = options.weight_decay},
          .learning_rate = options.learning_rate,
          .clip_norm = options.clip_norm};
}

}  // namespace

Result<Outcome> train(const TrainOptions& options) {
  auto mesh = TRY(connect(options.backend));
  TRY(check_batch(options, mesh.world_size()));
  const auto corpus = TRY(read_corpus(options.data, options.model.context));
  auto sampler = TRY(
      Sampler::create(corpus.train.windows(options.model.context), options.batch, options.seed));
  Gpt model(options.model);
  const auto policy = TRY(parse_policy(options.policy, mesh.world_size()));
  auto sharded = TRY(shard(model, mesh, policy, model.blocks()));
  auto optimizer = TRY(Optimizer::create(*sharded, optimizer_options(options)));

  auto reporter = Reporter::from_environment(WithoutAgent::discard);
  auto checkpoints = TRY(Checkpoints::open(options, mesh, *reporter));
  auto step = TRY(checkpoints.resume(*sharded, *optimizer, sampler));
  Progress progress(*reporter, mesh.rank(), step, options.steps,
                    options.batch * options.model.context);

  // Not before: only a step looks, and a program that has nothing to save may end at once.
  std::signal(SIGTERM, [](int) { told_to_stop = true; });
  bool stop = false;
  while (step < options.steps && !stop) {
    const auto starts = TRY(sampler.next(mesh.rank(), mesh.world_size()));
    const auto batch = corpus.train.batch(starts, options.model.context);
    auto news = TRY(
        compute_gradients(model, *sharded, batch, options.micro_steps, checkpoints.due(step + 1)));
    optimizer->set_learning_rate(learning_rate(options, step));
    const auto taken = TRY(optimizer->step());
    TRY(news.wait());
    stop = news.stop();
    ++step;
    progress.step(step, news.loss(), optimizer->learning_rate(), taken.gradient_norm);

    const bool last = step == options.steps || stop;
    if (step % options.evaluate_every == 0 || last)
      progress.held_out(step, TRY(held_out_loss(model, *sharded, corpus.held_out)));
    if (news.save() || last) TRY(checkpoints.save(step, *sharded, *optimizer, sampler));
  }
  TRY(checkpoints.finish());
  progress.summary(step);
  return step < options.steps ? Outcome::stopped : Outcome::finished;
}

}  // namespace lockstep::gpt
