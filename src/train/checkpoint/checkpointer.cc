#include "train/checkpoint/checkpointer.h"

#include <chrono>
#include <thread>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/files.h"
#include "base/format.h"
#include "train/checkpoint/list.h"
#include "train/checkpoint/read.h"
#include "train/checkpoint/write.h"

namespace lockstep {
namespace {

constexpr auto kPersistBound = std::chrono::minutes(30);

bool same_form(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

}  // namespace

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(CheckpointOptions options) {
  if (options.keep < 1)
    return Error{Code::invalid, format("keeping {} checkpoints: keep at least one", options.keep)};
  TRY(make_folders(options.folder));
  auto fence = TRY(Fence::claim(options.folder, options.epoch));
  TRY(remove_leftovers(options.folder));
  auto job = std::make_shared<Job>(Job{std::move(options), std::move(fence)});
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(job)));
}

Checkpointer::~Checkpointer() {
  if (in_flight_.valid()) in_flight_.wait_for(kPersistBound);
}

Result<Duration> Checkpointer::save(const TrainingState& state) {
  const auto begun = std::chrono::steady_clock::now();
  TRY(finish());
  snapshot(state);
  std::packaged_task<Result<void>()> task([job = job_] { return persist(*job); });
  in_flight_ = task.get_future();
  std::thread(std::move(task)).detach();  // a thread that hangs cannot be joined
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
}

Result<void> Checkpointer::finish() {
  if (!in_flight_.valid()) return {};
  if (in_flight_.wait_for(kPersistBound) != std::future_status::ready)
    return Error{Code::timeout, format("saving step {} to {} hangs", job_->snapshot.step,
                                       job_->options.folder.string())};
  return in_flight_.get();
}

void Checkpointer::snapshot(const TrainingState& state) {
  const at::NoGradGuard no_grad;
  auto& kept = job_->snapshot;
  auto copies = std::move(kept.tensors);
  copies.resize(state.tensors.size());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const auto& [name, tensor] = state.tensors[i];
    copies[i].name = name;
    if (!same_form(copies[i].tensor, tensor))
      copies[i].tensor = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
    copies[i].tensor.copy_(tensor);
  }
  kept = state;
  kept.tensors = std::move(copies);
}

Result<void> Checkpointer::persist(const Job& job) {
  const auto path = TRY(write_checkpoint(job.options.folder, job.fence, job.snapshot));
  if (job.options.saved) job.options.saved(job.snapshot.step, path);
  return prune_checkpoints(job.options.folder, job.fence, job.options.keep);
}

namespace {

// Rank 0's choice, for all; nothing if there is no checkpoint.
Result<std::optional<std::int64_t>> agree_on_step(const std::filesystem::path& folder, Mesh& mesh) {
  double chosen = -1;
  Result<void> searched;
  if (mesh.rank() == 0) {
    auto newest = newest_checkpoint(folder);
    if (newest) chosen = static_cast<double>(newest->manifest().step);
    if (!newest && newest.error().code != Code::not_found) searched = newest.error();
  }
  // -2: rank 0 could not look. Sent too, so that nobody waits for it.
  if (!searched) chosen = -2;
  const auto told = mesh.rank() == 0 ? chosen : -3.0;
  const auto step = TRY(mesh.world().reduce(told, Reduction::maximum, "the checkpoint's step"));
  TRY(std::move(searched));
  if (step == -2) return Error{Code::unavailable, "rank 0 could not look for checkpoints"};
  if (step < 0) return std::optional<std::int64_t>();
  return std::optional(static_cast<std::int64_t>(step));
}

Result<void> read_state(const std::filesystem::path& path, ShardedModel& model,
                        Optimizer& optimizer, Sampler& sampler) {
  const auto checkpoint = TRY(SavedCheckpoint::open(path));
  const auto& manifest = checkpoint.manifest();
  if (manifest.optimizer != optimizer.method())
    return Error{Code::invalid,
                 format("it was trained with {}, not {}", manifest.optimizer, optimizer.method())};
  TRY(checkpoint.read(state_of(0, model, optimizer, sampler).tensors));
  optimizer.set_steps(manifest.optimizer_steps);
  return sampler.restore({manifest.sampler_seed, manifest.sampler_cursor});
}

}  // namespace

Result<std::int64_t> resume(const std::filesystem::path& folder, ShardedModel& model,
                            Optimizer& optimizer, Sampler& sampler) {
  auto& mesh = model.mesh();
  const auto step = TRY(agree_on_step(folder, mesh));
  if (!step) return std::int64_t{0};
  const auto path = folder / checkpoint_name(*step);
  auto read = read_state(path, model, optimizer, sampler);
  const auto all =
      TRY(mesh.world().reduce(read ? 1 : 0, Reduction::minimum, "who has read the checkpoint"));
  if (!read) return std::move(read).error().within(format("resuming from {}", path.string()));
  if (all < 1)
    return Error{Code::unavailable, format("resuming from {}: another rank could not read it; is "
                                           "the folder on all hosts?",
                                           path.string())};
  return *step;
}

}  // namespace lockstep
