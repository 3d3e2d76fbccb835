#include "lockstep/checkpoint.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "base/os/environment.h"
#include "library/train/internals.h"
#include "report/fault/fault.h"
#include "report/reporter.h"
#include "train/checkpoint/checkpoint_interval.h"
#include "train/checkpoint/checkpointer.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/checkpoint/load.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/state.h"

namespace lockstep {

struct Checkpointer::Impl {
  CheckpointOptions options;
  bool decides = false;  // rank 0
  train::CheckpointInterval interval;
  std::unique_ptr<report::Reporter> reporter;
  std::unique_ptr<train::Checkpointer> checkpointer;  // the first to end: it uses the reporter
};

Checkpointer::Checkpointer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;
Checkpointer& Checkpointer::operator=(Checkpointer&&) noexcept = default;
Checkpointer::~Checkpointer() = default;

Result<Checkpointer> Checkpointer::open(const CheckpointOptions& options, const Group& group) {
  auto reporter = report::Reporter::from_environment(report::WithoutAgent::discard);
  train::CheckpointOptions saving;
  saving.folder = options.folder;
  saving.writer = train::writer_from_environment(own_environment(), options.generation);
  saving.claim_time = train::ClaimTime::at_open;
  saving.keep = options.keep;
  saving.host = train::host_of_folder(saving.folder, own_environment());
  saving.on_saved = [to = reporter.get()](std::int64_t step, const std::filesystem::path& path) {
    to->checkpoint(step, path);
  };
  saving.on_rejected = [to = reporter.get()](report::Fault fault, const std::string& why) {
    to->fault(fault, -1, why);
  };
  auto checkpointer =
      TRY(train::Checkpointer::open(std::move(saving), Internals::of(group).world()));
  const train::CheckpointInterval interval(train::mean_time_between_failures(group.size()),
                                           std::chrono::steady_clock::now());
  return Checkpointer(std::make_unique<Impl>(
      Impl{options, group.rank() == 0, interval, std::move(reporter), std::move(checkpointer)}));
}

Result<std::int64_t> Checkpointer::resume(ShardedModel& model, Optimizer& optimizer,
                                          Sampler& sampler) {
  return train::resume(impl_->options.folder, Internals::of(model), Internals::of(optimizer),
                       Internals::of(sampler));
}

bool Checkpointer::due(std::int64_t step) const {
  if (impl_->options.every > 0) return step % impl_->options.every == 0;
  return impl_->decides && impl_->interval.due(std::chrono::steady_clock::now());
}

std::chrono::microseconds Checkpointer::interval() const { return impl_->interval.interval(); }

Result<std::chrono::microseconds> Checkpointer::save(std::int64_t step, const ShardedModel& model,
                                                     const Optimizer& optimizer,
                                                     const Sampler& sampler) {
  auto state =
      train::state_of(step, Internals::of(model), Internals::of(optimizer), Internals::of(sampler));
  state.notes = impl_->options.notes;
  const auto stall = TRY(impl_->checkpointer->save(state));
  impl_->interval.record_save(stall, std::chrono::steady_clock::now());
  return stall;
}

Result<void> Checkpointer::finish() { return impl_->checkpointer->finish(); }

struct SavedModel::Impl {
  train::SavedCheckpoint checkpoint;
};

Result<SavedModel> SavedModel::newest(const std::filesystem::path& folder) {
  auto checkpoint = TRY(train::newest_checkpoint(folder));
  return SavedModel(std::make_shared<const Impl>(Impl{std::move(checkpoint)}));
}

std::int64_t SavedModel::step() const { return impl_->checkpoint.manifest().step; }

const std::map<std::string, std::string>& SavedModel::notes() const {
  return impl_->checkpoint.manifest().notes;
}

Result<void> SavedModel::load_into(torch::nn::Module& module) const {
  std::vector<train::OwnedTensor> tensors;
  for (const auto& item : module.named_parameters())
    tensors.push_back(TRY(train::whole("parameter/" + item.key(), item.value())));
  for (const auto& item : module.named_buffers())
    tensors.push_back(TRY(train::whole("buffer/" + item.key(), item.value())));
  TRY(train::check_fits(impl_->checkpoint.manifest(), tensors));
  return train::load(impl_->checkpoint, tensors);
}

}  // namespace lockstep
