// TransitionChecker checks that each change of the rows may follow the rows before it. Recorded
// states, queue positions, requests, retries, pauses and running times must be consistent, whatever
// happens in the simulation.
#pragma once

#include "platform/core/model/state.h"
#include "sim/checks/scheduling_oracle.h"
#include "sim/sim_context.h"
#include "sim/world/commit.h"
#include "sim/world/running_times.h"

namespace lockstep::sim {

class TransitionChecker {
 public:
  TransitionChecker(SimContext& context, const model::State& durable, const RunningTimes& times)
      : context_(context), durable_(durable), times_(times) {}

  // The rows are about to become durable.
  void check_commit(const Commit& commit);
  // Likewise of rows whose moments move with the clock.
  void check_clock_change(const Commit& commit);

 private:
  void check_node(const model::Node& after);
  void check_ranks(const model::Node& before, const model::Node& after);
  void check_attempt(const Commit& commit, const model::Attempt& after);
  void check_moves(const model::Attempt& before, const model::Attempt& after);
  void check_moments(const model::Attempt& before, const model::Attempt& after);
  void check_new_attempt(const Commit& commit, const model::Attempt& attempt);
  void check_pause(const Commit& commit, const model::Run& run, const model::Attempt& attempt);
  void check_preconditions(const Commit& commit, const model::Run& run,
                           const model::Attempt& attempt);
  void check_queue_order(const Commit& commit);
  void check_run(const Commit& commit, const model::Run& after);
  void check_known_run(const Commit& commit, const model::Run& before, const model::Run& after);
  void check_charge(const model::Run& before, const model::Run& after, const model::Attempt* ended);
  bool made_progress(const model::Attempt& ended) const;
  bool exited_again(const Commit& commit, const model::Attempt& ended) const;
  bool crashed_again(const Commit& commit, const model::Attempt& ended) const;
  void check_retries(const model::Run& before, const model::Run& after,
                     const model::Attempt* ended);
  void check_end(const Commit& commit, const model::Run& after, const model::Attempt* ended);
  void check_resumed(const model::Run& after);
  void check_audit(const model::Run& before, const model::Run& after);
  void check_host(const model::HostRow& after);
  void check_versions(const Commit& commit);

  SimContext& context_;
  const model::State& durable_;
  const RunningTimes& times_;
};

}  // namespace lockstep::sim
