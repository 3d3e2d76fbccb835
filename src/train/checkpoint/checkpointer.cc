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

// Counts what is written to it, or to what it is a view of.
std::int64_t version_of(const OwnedTensor& tensor) {
  return static_cast<std::int64_t>(tensor.tensor._version());
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
  auto job = std::make_shared<Job>(std::move(options), epoch, std::move(fence), std::move(group));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

Checkpointer::~Checkpointer() {
  if (in_flight_.valid()) in_flight_.wait_for(kPersistBound);
}

Result<Duration> Checkpointer::save(const TrainingState& state) {
  const auto begun = std::chrono::steady_clock::now();
  TRY(finish());
  auto& job = *job_;
  job.tensors = state.tensors;
  job.tensors.push_back(random_state(job.group.rank(), job.group.size()));
  if (!job.plan) job.plan = TRY(make_plan(job.tensors, job.group));
  auto begun_well = begin(job, state);
  if (begun_well) copy_behind(state.readers.get());
  std::packaged_task<Result<void>()> task(
      [job = job_, begun_well = std::move(begun_well)] { return persist(*job, begun_well); });
  in_flight_ = task.get_future();
  std::thread(std::move(task)).detach();  // a thread that hangs cannot be joined
  const auto held = std::chrono::steady_clock::now() - begun;
  return std::chrono::duration_cast<Duration>(held) +
         (state.readers ? state.readers->take_waited() : Duration(0));
}

// Of a GPU all is copied at once: only this thread knows the stream on which it is computed.
Result<void> Checkpointer::begin(Job& job, const TrainingState& state) {
  job.manifest = manifest_of(state, job.epoch, job.group.size());
  job.manifest.tensors = job.plan->tensors;
  job.versions.clear();
  for (auto& tensor : job.tensors) {
    tensor.steady = tensor.steady && state.readers && tensor.tensor.is_cpu();
    job.versions.push_back(version_of(tensor));
  }
  TRY(check_form(*job.plan, job.tensors));
  TRY(job.snapshot.make(*job.plan));
  job.snapshot.take(*job.plan, job.tensors);
  return {};
}

void Checkpointer::copy_behind(Readers* readers) {
  std::promise<void> ended;
  if (readers) readers->add(ended.get_future().share());
  std::packaged_task<Result<void>()> task([job = job_, ended = std::move(ended)]() mutable {
    auto outcome = copy_steady(*job);
    ended.set_value();
    return outcome;
  });
  job_->copied = task.get_future();
  std::thread(std::move(task)).detach();
}

Result<void> Checkpointer::copy_steady(Job& job) {
  job.snapshot.take_steady(*job.plan, job.tensors);
  for (std::size_t i = 0; i < job.tensors.size(); ++i)
    if (job.tensors[i].steady && version_of(job.tensors[i]) != job.versions[i])
      return Error{Code::invalid, format("{} was changed while it was copied: change the "
                                         "training's state by the optimizer's step only, or after "
                                         "the checkpointer's finish()",
                                         job.tensors[i].name)};
  return {};
}

Result<void> Checkpointer::finish() {
  if (!in_flight_.valid()) return {};
  if (in_flight_.wait_for(kPersistBound) != std::future_status::ready)
    return Error{Code::timeout, format("saving step {} to {} hangs", job_->manifest.step,
                                       job_->options.folder.string())};
  auto outcome = in_flight_.get();
  job_->tensors.clear();  // by this thread: they may be the last to hold on to Python's objects
  return outcome;
}

Result<void> Checkpointer::persist(Job& job, const Result<void>& begun) {
  const PersistTask task{.folder = job.options.folder,
                         .epoch = job.epoch,
                         .fence = job.fence ? &*job.fence : nullptr,
                         .keep = job.options.keep,
                         .saved = job.options.saved,
                         .manifest = job.manifest,
                         .snapshot = job.snapshot,
                         .copied = [&job] { return job.copied.get(); }};
  const auto outcome = lockstep::persist(task, begun, job.group);
  if (job.copied.valid()) job.copied.wait();  // where writing failed
  return outcome;
}

}  // namespace lockstep
