#include "checkpoints.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "checkpoint_notes.h"

namespace gpt {
namespace {

// Ranks wait this long for each other's files.
constexpr auto kSaveTimeout = std::chrono::minutes(30);

// Another training writes to the folder: this one must end.
bool is_refused(const lockstep::Error& error) {
  return error.code == lockstep::Code::denied || error.code == lockstep::Code::already_exists;
}

double seconds(std::chrono::microseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Result<Checkpoints> Checkpoints::open(const TrainOptions& options, lockstep::Recovery& recovery,
                                      int rank) {
  Checkpoints checkpoints;
  if (options.checkpoints.empty()) return checkpoints;
  checkpoints.prints_ = rank == 0;
  checkpoints.by_time_ = options.checkpoint_every == 0;
  const auto group = LOCKSTEP_TRY(recovery.new_group(kSaveTimeout));
  checkpoints.checkpointer_ =
      LOCKSTEP_TRY(lockstep::Checkpointer::open({.folder = options.checkpoints,
                                                 .every = options.checkpoint_every,
                                                 .generation = recovery.generation(),
                                                 .notes = notes_of(options.model)},
                                                group));
  return checkpoints;
}

Result<std::int64_t> Checkpoints::resume(lockstep::ShardedModel& model,
                                         lockstep::Optimizer& optimizer,
                                         lockstep::Sampler& sampler) {
  if (!checkpointer_) return std::int64_t{0};
  const auto step = LOCKSTEP_TRY(checkpointer_->resume(model, optimizer, sampler));
  if (prints_ && step > 0) {
    std::printf("resuming from step %ld\n", static_cast<long>(step));
    std::fflush(stdout);
  }
  return step;
}

Result<void> Checkpoints::save(std::int64_t step, const lockstep::ShardedModel& model,
                               const lockstep::Optimizer& optimizer,
                               const lockstep::Sampler& sampler) {
  if (!checkpointer_) return {};
  const auto stall = checkpointer_->save(step, model, optimizer, sampler);
  if (stall) {
    print_interval(*stall);
    return {};
  }
  if (is_refused(stall.error())) return stall.error();
  // Every rank has the same error.
  if (prints_)
    std::fprintf(stderr, "%s; training continues without it\n", stall.error().message.c_str());
  return {};
}

void Checkpoints::print_interval(std::chrono::microseconds stall) {
  if (!prints_ || !by_time_ || std::exchange(printed_, true)) return;
  std::printf("a save delays the training by %.3f s; checkpoints will be %.0f s apart\n",
              seconds(stall), seconds(checkpointer_->interval()));
  std::fflush(stdout);
}

Result<void> Checkpoints::finish() {
  if (!checkpointer_) return {};
  return checkpointer_->finish();
}

}  // namespace gpt
