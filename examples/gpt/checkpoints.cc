#include "checkpoints.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/log.h"
#include "notes.h"

namespace lockstep::gpt {
namespace {

Result<std::optional<std::int64_t>> epoch_from_environment() {
  const char* value = std::getenv("LOCKSTEP_EPOCH");
  if (!value) return std::optional<std::int64_t>();
  const std::string words = value;
  std::int64_t epoch = 0;
  const auto [end, failed] = std::from_chars(words.data(), words.data() + words.size(), epoch);
  if (failed != std::errc() || end != words.data() + words.size() || epoch < 0)
    return Error{Code::invalid, format("LOCKSTEP_EPOCH={}: expected a number", words)};
  return std::optional(epoch);
}

}  // namespace

Result<Checkpoints> Checkpoints::open(const TrainOptions& options, int rank, Reporter& reporter) {
  Checkpoints checkpoints;
  checkpoints.folder_ = options.checkpoints;
  checkpoints.model_ = options.model;
  checkpoints.speaks_ = rank == 0;
  if (options.checkpoints.empty() || rank != 0) return checkpoints;
  CheckpointOptions saving;
  saving.folder = options.checkpoints;
  saving.epoch = TRY(epoch_from_environment());
  saving.saved = [&reporter](std::int64_t step, const std::filesystem::path& path) {
    reporter.checkpoint(step, path);
  };
  checkpoints.writer_ = TRY(Checkpointer::open(std::move(saving)));
  return checkpoints;
}

Result<std::int64_t> Checkpoints::resume(ShardedModel& model, Optimizer& optimizer,
                                         Sampler& sampler) {
  if (folder_.empty()) return std::int64_t{0};
  const auto step = TRY(lockstep::resume(folder_, model, optimizer, sampler));
  if (speaks_ && step > 0) {
    std::printf("resuming from step %ld\n", static_cast<long>(step));
    std::fflush(stdout);
  }
  return step;
}

Result<void> Checkpoints::save(std::int64_t step, const ShardedModel& model,
                               const Optimizer& optimizer, const Sampler& sampler) {
  if (!writer_) return {};
  auto state = state_of(step, model, optimizer, sampler);
  state.notes = notes_of(model_);
  auto stalled = writer_->save(state);
  if (stalled) return {};
  if (stalled.error().code == Code::denied) return std::move(stalled).error();
  LS_LOG(error, "{}; training goes on without it", stalled.error().message);
  return {};
}

Result<void> Checkpoints::finish() {
  if (!writer_) return {};
  return writer_->finish();
}

}  // namespace lockstep::gpt
