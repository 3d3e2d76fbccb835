#include "train/recovery/recovery.h"

#include <utility>

#include "library/train/internals.h"
#include "lockstep/recovery.h"

namespace lockstep {
namespace {

train::RecoverableTraining borrowed(const RecoverableTraining& training) {
  return {Internals::of(training.model), Internals::of(training.optimizer),
          Internals::of(training.sampler), training.reopen};
}

RecoveryOutcome outcome_of(train::RecoveryOutcome outcome) {
  return {outcome.leaves, outcome.step, std::move(outcome.description), outcome.reports};
}

}  // namespace

struct Recovery::Impl {
  ConnectOptions connect;
  std::unique_ptr<train::Recovery> recovery;
};

Recovery::Recovery(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recovery::Recovery(Recovery&&) noexcept = default;
Recovery& Recovery::operator=(Recovery&&) noexcept = default;
Recovery::~Recovery() = default;

Result<Recovery> Recovery::start(const RecoveryOptions& options) {
  auto recovery = TRY(train::recovery_options_from_environment());
  recovery.peer_timeout = options.connect.timeout;
  recovery.checkpoint_folder = options.checkpoint_folder;
  recovery.batch_scaling = options.batch_scaling;
  if (options.connect.backend == Backend::gloo) recovery.on_failure = train::RecoveryMode::restart;
  auto started = TRY(train::Recovery::start(recovery));
  return Recovery(std::make_unique<Impl>(Impl{options.connect, std::move(started)}));
}

Result<Group> Recovery::group() {
  if (impl_->connect.backend == Backend::gloo) return Group::connect(impl_->connect);
  auto mesh = TRY(impl_->recovery->mesh());
  return Internals::group(std::move(mesh), impl_->recovery->initial_values());
}

Result<Group> Recovery::new_group(std::chrono::microseconds timeout) {
  if (impl_->connect.backend == Backend::gloo)
    return Group::connect({.backend = Backend::gloo, .timeout = timeout});
  return Internals::group(train::Mesh::replicas(TRY(impl_->recovery->new_group(timeout))));
}

bool Recovery::is_replacement() const { return impl_->recovery->is_replacement(); }
int Recovery::generation() const { return impl_->recovery->generation(); }

Result<RecoveryOutcome> Recovery::complete_replacement(const RecoverableTraining& training) {
  return outcome_of(TRY(impl_->recovery->complete_replacement(borrowed(training))));
}

Result<void> Recovery::begin_step(std::int64_t step, const RecoverableTraining& training) {
  return impl_->recovery->begin_step(step, borrowed(training));
}

Result<RecoveryOutcome> Recovery::recover(const Error& cause, const RecoverableTraining& training) {
  return outcome_of(TRY(impl_->recovery->recover(cause, borrowed(training))));
}

}  // namespace lockstep
