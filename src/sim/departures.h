// Departures: whether those who have to leave their devices for others may be asked to, as
// docs/design/scheduler.md promises, and what it costs them: no retry, and no work that was saved.
#pragma once

#include <string_view>

#include "platform/core/model/state.h"
#include "sim/commit.h"
#include "sim/scene.h"

namespace lockstep::sim {

class Departures {
 public:
  // interval: for which who is paused has run, at its last checkpoint.
  Departures(Scene& scene, const State& durable, Duration interval)
      : scene_(scene), durable_(durable), interval_(interval) {}

  // The rows are about to become durable.
  void check(const Commit& commit);

 private:
  void check_attempt(const Commit& commit, const Attempt& after);
  void check_leaving(const Commit& commit, const Run& run, const Attempt& attempt);
  void check_move(const Commit& commit, const Run& run, const Attempt& attempt);
  void check_beneficiary(const Commit& commit, const Run& run, const Attempt& attempt);
  void check_next(const Commit& commit, const Attempt& ended);
  void refuse(const Run& run, const Attempt& attempt, std::string_view why);

  Scene& scene_;
  const State& durable_;
  const Duration interval_;
};

}  // namespace lockstep::sim
