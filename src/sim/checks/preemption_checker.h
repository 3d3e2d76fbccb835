// PreemptionChecker checks that a run may be preempted as docs/design/scheduler.md promises, and
// that preemption costs the run no retry and no saved work.
#pragma once

#include <string_view>

#include "platform/core/model/state.h"
#include "sim/sim_context.h"
#include "sim/world/commit.h"

namespace lockstep::sim {

class PreemptionChecker {
 public:
  // interval: the time that a paused run has run at least, at its last checkpoint.
  PreemptionChecker(SimContext& context, const model::State& durable, Duration interval)
      : context_(context), durable_(durable), interval_(interval) {}

  // The rows are about to become durable.
  void check(const Commit& commit);

 private:
  void check_attempt(const Commit& commit, const model::Attempt& after);
  void check_preempted(const Commit& commit, const model::Run& run, const model::Attempt& attempt);
  void check_move(const Commit& commit, const model::Run& run, const model::Attempt& attempt);
  void check_beneficiary(const Commit& commit, const model::Run& run,
                         const model::Attempt& attempt);
  bool has_orphan_on(const model::HostDevices& devices) const;
  void check_next(const Commit& commit, const model::Attempt& ended);
  void report_wrong_preemption(const model::Run& run, const model::Attempt& attempt,
                               std::string_view why);

  SimContext& context_;
  const model::State& durable_;
  const Duration interval_;
};

}  // namespace lockstep::sim
