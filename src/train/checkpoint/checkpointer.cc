#include "train/checkpoint/checkpointer.h"

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "train/checkpoint/format/unfinished.h"
#include "train/checkpoint/gather.h"
#include "train/checkpoint/persist.h"
#include "train/checkpoint/random.h"

namespace lockstep {
namespace {

constexpr auto kClaimLabel = "the claim of the checkpoints";
constexpr auto kPersistBound = std::chrono::minutes(30);

FenceOptions fence_options(const CheckpointOptions& options) {
  return {.writer = options.writer, .kept_out = options.kept_out};
}

// Rank 0's words: the claim's opening, or nothing where the folder is not claimed.
Result<std::string> keep(std::optional<Fence> claimed, const CheckpointOptions& options,
                         std::optional<Fence>& fence) {
  if (!claimed) return std::string();
  TRY(remove_leftovers(options.folder, *claimed));
  fence = std::move(claimed);
  return fence->opening();
}

Result<std::string> claim_at_save(const CheckpointOptions& options, std::optional<Fence>& fence) {
  TRY(make_folders(options.folder));
  return keep(TRY(Fence::claim(options.folder, fence_options(options))), options, fence);
}

Result<std::string> claim_at_opening(const CheckpointOptions& options,
                                     std::optional<Fence>& fence) {
  if (options.keep < 1)
    return Error{Code::invalid, format("keeping {} checkpoints: keep at least one", options.keep)};
  if (options.claiming == Claiming::at_opening) {
    TRY(make_folders(options.folder));
    return keep(TRY(Fence::claim_unless_sibling(options.folder, fence_options(options))), options,
                fence);
  }
  const auto other = other_writer(options.folder, fence_options(options));
  if (other && options.claiming == Claiming::at_save)
    LS_LOG(warning,
           "{} writes to {}: what is saved there changes, and a save from here is refused "
           "until it has ended",
           *other, options.folder.string());
  return std::string();
}

Manifest manifest_of(const TrainingState& state, std::int64_t attempt, int ranks) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.epoch = attempt;
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
  auto job = std::make_shared<Job>(std::move(options), std::move(group));
  Result<std::string> claimed = std::string();
  if (job->group.rank() == 0) claimed = claim_at_opening(job->options, job->fence);
  job->opening = TRY(tell(job->group, claimed, kClaimLabel));
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

Checkpointer::~Checkpointer() {
  if (in_flight_.valid()) in_flight_.wait_for(kPersistBound);
}

Result<Duration> Checkpointer::save(const TrainingState& state) {
  const auto begun = std::chrono::steady_clock::now();
  TRY(finish());
  auto& job = *job_;
  if (job.opening.empty()) TRY(claim(job));
  job.tensors = state.tensors;
  job.tensors.push_back(random_state(job.group.rank(), job.group.size()));
  if (!job.plan) job.plan = TRY(make_plan(job.tensors, job.group));
  auto begun_well = begin(job, state);
  if (begun_well) copy_behind(state.readers.get());
  in_flight_ = in_background(job_, [begun_well = std::move(begun_well)](Job& shared) {
    return persist(shared, begun_well);
  });
  const auto held = std::chrono::steady_clock::now() - begun;
  return std::chrono::duration_cast<Duration>(held) +
         (state.readers ? state.readers->take_waited() : Duration(0));
}

Result<void> Checkpointer::claim(Job& job) {
  if (job.options.claiming == Claiming::never)
    return Error{Code::invalid, format("{} was opened for reading: open it for writing to save",
                                       job.options.folder.string())};
  Result<std::string> claimed = std::string();
  if (job.group.rank() == 0) claimed = claim_at_save(job.options, job.fence);
  job.opening = TRY(tell(job.group, claimed, kClaimLabel));
  return {};
}

// The thread releases the job before its outcome is ready. The job may hold functions of Python,
// and a process that ends does not give Python's lock to a thread any more.
std::future<Result<void>> Checkpointer::in_background(std::shared_ptr<Job> job, Work work) {
  std::promise<Result<void>> promise;
  auto outcome = promise.get_future();
  std::thread thread(
      [job = std::move(job), work = std::move(work), promise = std::move(promise)]() mutable {
        std::optional<Result<void>> result;
        std::exception_ptr thrown;
        try {
          result = work(*job);
        } catch (...) {
          thrown = std::current_exception();
        }
        work = nullptr;
        job.reset();
        if (thrown)
          promise.set_exception(thrown);
        else
          promise.set_value(std::move(*result));
      });
  thread.detach();  // a thread that hangs cannot be joined
  return outcome;
}

// Of a GPU all is copied at once: only this thread knows the stream on which it is computed.
Result<void> Checkpointer::begin(Job& job, const TrainingState& state) {
  job.manifest = manifest_of(state, job.options.writer.attempt, job.group.size());
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
  auto ended = std::make_shared<std::promise<void>>();
  if (readers) readers->add(ended->get_future().share());
  job_->copied = in_background(job_, [ended = std::move(ended)](Job& job) {
    auto outcome = copy_steady(job);
    ended->set_value();
    return outcome;
  });
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
                         .opening = job.opening,
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
