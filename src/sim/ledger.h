// Ledger: whether each change of the rows may follow what they were before. What is written down of
// states, turns, wishes, retries, pauses and running time must add up, whatever happens in the
// world.
#pragma once

#include "platform/core/model/state.h"
#include "sim/commit.h"
#include "sim/running_times.h"
#include "sim/scene.h"
#include "sim/turns.h"

namespace lockstep::sim {

class Ledger {
 public:
  Ledger(Scene& scene, const State& durable, const RunningTimes& times, const Map& map)
      : scene_(scene), durable_(durable), times_(times), turns_(map) {}

  // The rows are about to become durable.
  void committing(const Commit& commit);
  // Likewise of rows whose moments move with the clock.
  void moving(const Commit& commit);

 private:
  void check_node(const Node& after);
  void check_ranks(const Node& before, const Node& after);
  void check_attempt(const Commit& commit, const Attempt& after);
  void check_moves(const Attempt& before, const Attempt& after);
  void check_moments(const Attempt& before, const Attempt& after);
  void check_new_attempt(const Commit& commit, const Attempt& attempt);
  void check_pause(const Commit& commit, const Run& run, const Attempt& attempt);
  void check_wishes(const Commit& commit, const Run& run, const Attempt& attempt);
  void check_turns(const Commit& commit);
  void check_run(const Commit& commit, const Run& after);
  void check_known_run(const Commit& commit, const Run& before, const Run& after);
  void check_charge(const Run& before, const Run& after, const Attempt* ended);
  bool made_progress(const Attempt& ended) const;
  bool crashed_again(const Commit& commit, const Attempt& ended) const;
  void check_retries(const Run& before, const Run& after, const Attempt* ended);
  void check_end(const Commit& commit, const Run& after, const Attempt* ended);
  void check_resumed(const Run& after);
  void check_audit(const Run& before, const Run& after);
  void check_host(const HostRow& after);
  void check_versions(const Commit& commit);

  Scene& scene_;
  const State& durable_;
  const RunningTimes& times_;
  const Turns turns_;
};

}  // namespace lockstep::sim
