#include "train/checkpoint/resume.h"

#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/checkpoint/load.h"
#include "train/checkpoint/random_state.h"
#include "train/checkpoint/text_collectives.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

// Rank 0's choice among the checkpoints of a folder, from the newest on.
class Choice {
 public:
  explicit Choice(fs::path folder) : folder_(std::move(folder)) {}

  // The manifest of the next one that opens; empty if there are no checkpoints at all.
  Result<std::string> next() {
    for (const auto& listed : TRY(list_checkpoints(folder_))) {
      if (listed.step >= below_) continue;
      auto checkpoint = SavedCheckpoint::open(listed.path);
      if (checkpoint) return text(checkpoint->manifest());
      if (checkpoint.error().code == Code::invalid)
        return std::move(checkpoint).error().with_context(listed.path.string());
      refuse(listed.step, checkpoint.error());
    }
    if (refused_.empty()) return std::string();
    return Error{
        Code::corrupt,
        format(
            "{} has checkpoints, but none can be read: {}; to begin again from nothing, move them "
            "away",
            folder_.string(), joined(refused_, "; "))};
  }

  void refuse(std::int64_t step, const Error& error) {
    refused_.push_back(format("{}: {}", checkpoint_name(step), error.message));
    LS_LOG(warning, "skipping checkpoint {}", refused_.back());
    below_ = step;
  }

 private:
  fs::path folder_;
  std::int64_t below_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string> refused_;
};

// The objects to restore on this rank.
struct ResumeTarget {
  ShardedModel& model;
  const OptimizerCallbacks& optimizer;
  Sampler& sampler;
};

Result<void> check_optimizer(const Manifest& manifest, const OptimizerCallbacks& optimizer) {
  if (manifest.optimizer == optimizer.method) return {};
  return Error{Code::invalid,
               format("it was trained with {}, not {}", manifest.optimizer, optimizer.method)};
}

// A model alone: the optimizer starts without state, the sampler stays at its position.
Result<void> read_model(const SavedCheckpoint& checkpoint, const ResumeTarget& to) {
  const auto tensors = to.model.state();
  TRY(check_fits(checkpoint.manifest(), tensors));
  TRY(check_complete(checkpoint.manifest(), tensors));
  for (const auto& tensor : TRY(to.optimizer.state(checkpoint.manifest()))) tensor.tensor.zero_();
  to.optimizer.set_steps(0);
  return load(checkpoint, tensors);
}

Result<void> read_random(const SavedCheckpoint& checkpoint, at::Device device, int rank,
                         int ranks) {
  const auto& manifest = checkpoint.manifest();
  auto rows = random_state(device, rank, ranks);
  const bool same = manifest.ranks == ranks && check_fits(manifest, rows);
  if (!same) {
    seed_random(device, manifest.sampler_seed, manifest.step, rank);
    return {};
  }
  TRY(load(checkpoint, rows));
  set_random_state(device, rows);
  return {};
}

Result<void> read_all(const SavedCheckpoint& checkpoint, const ResumeTarget& to) {
  const auto& manifest = checkpoint.manifest();
  if (manifest.optimizer == kNoOptimizer) return read_model(checkpoint, to);
  TRY(check_optimizer(manifest, to.optimizer));
  auto tensors = to.model.state();
  auto more = TRY(to.optimizer.state(manifest));
  std::move(more.begin(), more.end(), std::back_inserter(tensors));
  TRY(check_fits(manifest, tensors));
  TRY(check_complete(manifest, tensors));
  TRY(load(checkpoint, tensors));
  to.optimizer.set_steps(manifest.optimizer_steps);
  auto& mesh = to.model.mesh();
  TRY(read_random(checkpoint, to.model.device(), mesh.rank(), mesh.world_size()));
  return to.sampler.restore({manifest.sampler_seed, manifest.sampler_cursor});
}

// Any reason why a rank cannot read it is a reason to try the one before, unless it would be the
// same with every checkpoint.
Result<std::string> outcome_of(Result<void> read) {
  if (read) return std::string();
  auto error = std::move(read).error();
  if (error.code != Code::invalid) error.code = Code::corrupt;
  return error;
}

}  // namespace

Result<std::int64_t> resume(const fs::path& folder, ShardedModel& model, Optimizer& optimizer,
                            Sampler& sampler) {
  const OptimizerCallbacks resumed{
      std::string(optimizer.method()),
      [&](const Manifest&) -> Result<std::vector<OwnedTensor>> { return optimizer.state(); },
      [&](std::int64_t steps) { optimizer.set_steps(steps); }};
  return resume(folder, model, resumed, sampler);
}

Result<std::int64_t> resume(const fs::path& folder, ShardedModel& model,
                            const OptimizerCallbacks& optimizer, Sampler& sampler) {
  auto& world = model.mesh().world();
  model.snapshot_copies()->wait();
  Choice choice(folder);
  while (true) {
    const auto chosen = world.rank() == 0 ? choice.next() : Result<std::string>(std::string());
    const auto manifest_text = TRY(broadcast_text(world, chosen, "which checkpoint to go on from"));
    if (manifest_text.empty()) return std::int64_t{0};
    auto manifest = TRY(parse_manifest(manifest_text));
    const auto step = manifest.step;
    const auto path = folder / checkpoint_name(step);
    const SavedCheckpoint checkpoint(path, std::move(manifest));
    auto read =
        all_gather_text(world, outcome_of(read_all(checkpoint, {model, optimizer, sampler})),
                        "which ranks have read the checkpoint");
    if (read) {
      TRY(model.sync_parameters());
      return step;
    }
    if (read.error().code != Code::corrupt)
      return std::move(read).error().with_context(format("resuming from {}", path.string()));
    if (world.rank() == 0) choice.refuse(step, read.error());
  }
}

}  // namespace lockstep::train
