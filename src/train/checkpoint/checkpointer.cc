#include "train/checkpoint/checkpointer.h"

#include <charconv>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/format.h"
#include "train/checkpoint/format/unfinished.h"
#include "train/checkpoint/gather.h"
#include "train/checkpoint/persist.h"
#include "train/checkpoint/random.h"

namespace lockstep {
namespace {

constexpr auto kPersistBound = std::chrono::minutes(30);

Result<Fence> claim(const CheckpointOptions& options) {
  if (options.keep < 1)
    return Error{Code::invalid, format("keeping {} checkpoints: keep at least one", options.keep)};
  TRY(make_folders(options.folder));
  auto fence = TRY(Fence::claim(options.folder, options.epoch));
  TRY(remove_leftovers(options.folder));
  return fence;
}

Result<std::string> epoch_words(const std::optional<Result<Fence>>& claimed) {
  if (!claimed) return std::string();
  if (!*claimed) return claimed->error();
  return format("{}", (*claimed)->epoch());
}

Manifest manifest_of(const TrainingState& state, std::int64_t epoch, int ranks) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.epoch = epoch;
  manifest.ranks = ranks;
  manifest.optimizer = state.optimizer;
  manifest.optimizer_steps = state.optimizer_steps;
  manifest.sampler_seed = state.sampler.seed;
  manifest.sampler_cursor = state.sampler.cursor;
  manifest.notes = state.notes;
  return manifest;
}

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(CheckpointOptions options, Comm group) {
  std::optional<Result<Fence>> claimed;
  if (group.rank() == 0) claimed = claim(options);
  const auto words = TRY(tell(group, epoch_words(claimed), "the epoch of the checkpoints"));
  std::int64_t epoch = 0;
  std::from_chars(words.data(), words.data() + words.size(), epoch);
  std::optional<Fence> fence;
  if (claimed) fence = std::move(**claimed);
  auto job =
      std::make_shared<Job>(Job{std::move(options), epoch, std::move(fence), std::move(group)});
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

Checkpointer::~Checkpointer() {
  if (in_flight_.valid()) in_flight_.wait_for(kPersistBound);
}

Result<Duration> Checkpointer::save(const TrainingState& state) {
  const auto begun = std::chrono::steady_clock::now();
  TRY(finish());
  auto tensors = state.tensors;
  auto& job = *job_;
  tensors.push_back(random_state(job.group.rank(), job.group.size()));
  if (!job.plan) job.plan = TRY(make_plan(tensors, job.group));
  auto taken = check_form(*job.plan, tensors);
  if (taken) taken = job.snapshot.take(*job.plan, tensors);
  job.manifest = manifest_of(state, job.epoch, job.group.size());
  job.manifest.tensors = job.plan->tensors;
  std::packaged_task<Result<void>()> task(
      [job = job_, taken = std::move(taken)] { return persist(*job, taken); });
  in_flight_ = task.get_future();
  std::thread(std::move(task)).detach();  // a thread that hangs cannot be joined
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
}

Result<void> Checkpointer::finish() {
  if (!in_flight_.valid()) return {};
  if (in_flight_.wait_for(kPersistBound) != std::future_status::ready)
    return Error{Code::timeout, format("saving step {} to {} hangs", job_->manifest.step,
                                       job_->options.folder.string())};
  return in_flight_.get();
}

Result<void> Checkpointer::persist(Job& job, const Result<void>& taken) {
  const PersistTask task{.folder = job.options.folder,
                         .epoch = job.epoch,
                         .fence = job.fence ? &*job.fence : nullptr,
                         .keep = job.options.keep,
                         .saved = job.options.saved,
                         .manifest = job.manifest,
                         .bytes = job.snapshot.bytes()};
  return lockstep::persist(task, taken, job.group);
}

}  // namespace lockstep
