#include "checkpoints.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/os/environment.h"
#include "checkpoint_notes.h"
#include "report/fault/fault.h"
#include "train/checkpoint/resume.h"

namespace lockstep::gpt {
namespace {

// Another training writes to the folder: this one must end.
bool is_refused(const Error& error) {
  return error.code == Code::denied || error.code == Code::already_exists;
}

}  // namespace

Result<Checkpoints> Checkpoints::open(const TrainOptions& options, train::Comm group,
                                      std::int64_t recoveries, report::Reporter& reporter) {
  Checkpoints checkpoints;
  checkpoints.folder_ = options.checkpoints;
  checkpoints.model_ = options.model;
  checkpoints.every_ = options.checkpoint_every;
  checkpoints.prints_ = group.rank() == 0;
  if (options.checkpoints.empty()) return checkpoints;
  train::CheckpointOptions saving;
  saving.folder = options.checkpoints;
  saving.writer = train::writer_from_environment(own_environment(), recoveries);
  saving.claim_time = train::ClaimTime::at_open;
  saving.on_saved = [&reporter](std::int64_t step, const std::filesystem::path& path) {
    reporter.checkpoint(step, path);
  };
  saving.on_rejected = [&reporter](report::Fault fault, const std::string& why) {
    reporter.fault(fault, -1, why);
  };
  const int ranks = group.size();
  checkpoints.writer_ = TRY(train::Checkpointer::open(std::move(saving), std::move(group)));
  if (checkpoints.prints_)
    checkpoints.cadence_.emplace(train::mean_time_between_failures(ranks),
                                 std::chrono::steady_clock::now());
  return checkpoints;
}

Result<std::int64_t> Checkpoints::resume(train::ShardedModel& model, train::Optimizer& optimizer,
                                         train::Sampler& sampler) {
  if (folder_.empty()) return std::int64_t{0};
  const auto step = TRY(train::resume(folder_, model, optimizer, sampler));
  if (prints_ && step > 0) {
    std::printf("resuming from step %ld\n", static_cast<long>(step));
    std::fflush(stdout);
  }
  return step;
}

bool Checkpoints::due(std::int64_t step) const {
  if (!writer_) return false;
  if (every_ > 0) return step % every_ == 0;
  return cadence_ && cadence_->due(std::chrono::steady_clock::now());
}

Result<void> Checkpoints::save(std::int64_t step, const train::ShardedModel& model,
                               const train::Optimizer& optimizer, const train::Sampler& sampler) {
  if (!writer_) return {};
  auto state = train::state_of(step, model, optimizer, sampler);
  state.notes = notes_of(model_);
  const auto stalled = writer_->save(state);
  if (stalled) {
    record_stall(*stalled);
    return {};
  }
  if (is_refused(stalled.error())) return stalled.error();
  // Every rank has the same error.
  if (prints_) LS_LOG(error, "{}; training continues without it", stalled.error().message);
  return {};
}

// Prints the save interval from the second save on: the first save also computes the write
// assignment.
void Checkpoints::record_stall(Duration stall) {
  if (!cadence_) return;
  const bool first = !cadence_->stall();
  cadence_->record_save(stall, std::chrono::steady_clock::now());
  if (!first || every_ > 0) return;
  std::printf("saving held up the training for %s; checkpoints will be %s apart\n",
              text(stall).c_str(), text(cadence_->interval()).c_str());
  std::fflush(stdout);
}

Result<void> Checkpoints::finish() {
  if (!writer_) return {};
  return writer_->finish();
}

}  // namespace lockstep::gpt
