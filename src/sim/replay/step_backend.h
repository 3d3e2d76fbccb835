// StepBackend: the platform's whole decision, step() with its queue over rows in memory, on hosts
// whose agents obey within the second in which they are asked: what is launched runs at once, and a
// job that ends is gone at once. So what differs from the pass by itself (pass_backend.h) is what
// surrounds the pass, and there must be no difference.
//
// All that happens in a second is one batch of events, decided once. No ticks come: time alone
// starts nobody, and nothing is late here.
//
// Cost: a job's rows are written about six times in its life, which takes tens of microseconds.
#pragma once

#include <span>
#include <vector>

#include "platform/core/step/step.h"
#include "sim/replay/replay.h"

namespace lockstep::sim {

class StepBackend : public Backend {
 public:
  // wants: as wants_of() makes them; what is not of a run's spec in them is left to step().
  StepBackend(const Map& map, const SchedulingPolicy& policy, std::vector<Want> wants);

  Result<Decision> decide(Seconds now, std::span<const JobId> ended,
                          std::span<const JobId> arrived) override;

 private:
  using Events = std::vector<Event>;

  void add_arrival(Events& events, JobId job) const;
  void add_end(Events& events, JobId job) const;
  // What is said by those who were told to start.
  Events answers_to(const std::vector<Effect>& effects) const;
  Result<std::vector<Effect>> happen(const Events& events, Seconds now);

  const std::vector<Want> wants_;
  Queue queue_;
  State state_;
};

}  // namespace lockstep::sim
