// Queue: the scheduler as steps keep it from one to the next. What it decides by is read from the
// rows, and it is told only what an event has changed of them; so a step costs what its event
// changes and not what there is, and one that changes nothing of that needs no pass.
//
//   Queue queue;                                          // knows nothing yet
//   Outcome outcome = TRY(step(queue, state, event, now));
//   if (!store(outcome)) queue.forget();                  // it had counted on these changes
//
// A queue that knows nothing reads all rows at the next step and decides the same.
#pragma once

#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {

class Draft;

// Ours. Agents have to be told, and ranks to end, before devices are free.
constexpr SchedulingPolicy step_policy() {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.vacates_at_once = false;
  return policy;
}

// What the pass is told of rows.
Want want_of(const Run& run);
Holding holding_of(const Run& run, const Attempt& attempt, const std::vector<const Node*>& nodes,
                   const SchedulingPolicy& policy = step_policy());
// All orphans of a run as one holder.
std::map<RunId, Holding> holdings_of(const std::map<NodeName, Orphan>& orphans);
Conditions conditions_of(const std::map<std::string, HostRow>& hosts,
                         const std::map<LimitId, LimitRow>& limits);

class Queue {
 public:
  // Whether each pass writes down for everybody who waits why he does. That costs as much as there
  // are who wait; waiting() says the same whenever it is asked.
  enum class Reasons { written, when_asked };

  explicit Queue(const SchedulingPolicy& policy = step_policy(), Reasons reasons = Reasons::written)
      : policy_(policy), reasons_(reasons) {}

  // The rows are not what it was told last.
  void forget();
  // Tells the scheduler what the draft has changed. True if it may now decide otherwise.
  bool follow(const Draft& draft);
  // Starts who can start, asks those to leave who make room for others, and writes down why the
  // others wait.
  void pass(Draft& draft);

  // Who waits for devices, in order, as of the last pass; nobody before the first.
  const std::vector<WaitingRun>& waiting() const;
  // The first of them that the map can hold.
  std::optional<RunId> head() const { return scheduler_ ? scheduler_->head() : std::nullopt; }
  // Who holds devices, by their ids.
  std::vector<Holding> holdings() const;

 private:
  // What the scheduler knows of a run.
  using Told = std::variant<std::monostate, Want, Holding>;

  Told of_rows(const Draft& draft, const RunId& run) const;
  void read_all(const Draft& draft);
  bool follow(const Draft& draft, const RunId& run);
  bool follow_conditions(const Draft& draft);
  void forget_orphans();
  bool follow_orphans(const Draft& draft);
  void tell(const RunId& run, const Told& before, const Told& now);
  void leave(Draft& draft, Plan& plan);
  void start(Draft& draft, Placement placement);

  const SchedulingPolicy policy_;
  const Reasons reasons_;
  std::optional<Scheduler> scheduler_;  // none: it knows nothing
  std::map<RunId, Told> told_;
  std::map<RunId, Holding> orphans_;  // by holder_of_orphan(): the scheduler counts them as held
  mutable std::optional<std::vector<WaitingRun>> waiting_;  // reckoned when it is asked for
};

}  // namespace lockstep
