// Promises: what those who wait may count on, looked at after the daemon's ticks: nobody waits
// longer than he has to, and what he is told of his place and his start is true.
#pragma once

#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/step/queue.h"
#include "sim/scene.h"
#include "sim/turns.h"

namespace lockstep::sim {

class Promises {
 public:
  Promises(Scene& scene, const Map& map) : scene_(scene), turns_(map) {}

  // After a tick that could be stored.
  void check(const State& state, const Queue& queue);

 private:
  void check_wishes(const Rows& rows, const Run& run);
  void check_order(const State& state, const std::vector<WaitingRun>& told,
                   const Standing& standing);
  void check_overtaking(const State& state, const std::vector<RunId>& order);
  void check_start(const std::vector<WaitingRun>& told, const Standing& standing);

  Scene& scene_;
  const Turns turns_;
};

}  // namespace lockstep::sim
