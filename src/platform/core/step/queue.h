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
#include "platform/core/sched/latest_start.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep {

class Draft;

// The longest that a run holds devices beyond its time limit, as long as the daemon and its agents
// can talk: to start its ranks, to end them and to send its last logs (ending.h).
inline constexpr Duration kOverheadMost = std::chrono::minutes(11);

// Ours. Agents have to be told, and ranks to end, before devices are free.
constexpr SchedulingPolicy step_policy() {
  SchedulingPolicy policy = policies::kOursWithMoves;
  policy.vacates_at_once = false;
  policy.overhead = kOverheadMost;
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
  // When these start, in the same order: an estimate, and a bound (sched/latest_start.h). Worked
  // out when it is asked for, and kept until something happens.
  const std::vector<StartTimes>& start_times() const;
  // The first of them that the map can hold.
  std::optional<RunId> head() const { return scheduler_ ? scheduler_->head() : std::nullopt; }
  // Who holds devices, by their ids.
  std::vector<Holding> holdings() const;

 private:
  // A run that waits for something else first: the scheduler is not told of it.
  struct Later {
    Want want;
    bool operator==(const Later&) const = default;
  };
  // What the scheduler knows of a run.
  using Told = std::variant<std::monostate, Later, Want, Holding>;

  // The scheduler is told of it.
  static bool decides(const Told& told) {
    return std::holds_alternative<Want>(told) || std::holds_alternative<Holding>(told);
  }

  Told of_rows(const Draft& draft, const RunId& run) const;
  OpenRuns open_runs() const;
  void changed();
  void read_all(const Draft& draft);
  bool follow(const Draft& draft, const RunId& run);
  bool follow_conditions(const Draft& draft);
  void forget_orphans();
  bool follow_orphans(const Draft& draft);
  void tell(const RunId& run, const Told& before, const Told& now);
  void leave(Draft& draft, Plan& plan);
  void start(Draft& draft, Placement placement);
  void work_out_start_times() const;

  const SchedulingPolicy policy_;
  const Reasons reasons_;
  std::optional<Scheduler> scheduler_;  // none: it knows nothing
  std::map<RunId, Told> told_;
  std::map<RunId, Holding> orphans_;  // by holder_of_orphan(): the scheduler counts them as held
  Limits limits_;
  Time decided_{};  // by the last pass
  Time heard_{};    // of the last event
  // Worked out when they are asked for.
  mutable std::optional<std::vector<WaitingRun>> waiting_;
  mutable std::optional<std::vector<StartTimes>> start_times_;
  mutable Time bounds_until_{};  // from then on some run outlives what they count on
};

}  // namespace lockstep
