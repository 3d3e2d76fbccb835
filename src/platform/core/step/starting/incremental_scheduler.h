// IncrementalScheduler: the scheduler that steps keep from one to the next. Its input comes from
// the rows, and each step updates it only with the rows that the event changed. So the cost of a
// step depends on what its event changes, not on the number of rows. An event that changes no input
// needs no scheduling pass.
//
// A Decider (core/step/decider.h) keeps one beside the state and resets it when a proposal is
// discarded, because it had applied these changes. After a reset it reads all rows at the next step
// and decides the same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "platform/core/budget/device_time.h"
#include "platform/core/model/state.h"
#include "platform/core/sched/policy.h"
#include "platform/core/sched/queue/latest_start.h"
#include "platform/core/sched/scheduler.h"

namespace lockstep::step {

class Draft;

// The longest time that a run holds devices beyond its time limit, unless many nodes are silent at
// once: to start its ranks, to end them, to send the last logs, or to find that a node is lost.
Duration overhead_max(const model::Settings& settings = {});

// The policy of the platform. It does not preempt at once: agents first receive a command and their
// ranks have to end before devices are free.
inline sched::SchedulingPolicy step_policy(const model::Settings& settings = {}) {
  sched::SchedulingPolicy policy = sched::policies::kOursWithMoves;
  policy.preempts_at_once = false;
  policy.overhead = overhead_max(settings);
  return policy;
}

// Input of the scheduler, from rows.
sched::PendingRun pending_run_of(const model::Run& run);
// nodes: of the attempt, without those that are given up: given_up_allocations_of() has these.
sched::Allocation allocation_of(const model::Run& run, const model::Attempt& attempt,
                                const std::vector<const model::Node*>& nodes,
                                const sched::SchedulingPolicy& policy = step_policy());
// All orphans of a run as one allocation.
std::map<model::RunId, sched::Allocation> orphan_allocations_of(
    const std::map<model::NodeName, model::Orphan>& orphans);
// All given-up nodes of a run as one allocation.
std::map<model::RunId, sched::Allocation> given_up_allocations_of(
    const std::map<model::NodeId, model::GivenUpNode>& nodes);
sched::OperatorSettings operator_settings_of(
    const std::map<std::string, model::HostRow>& hosts,
    const std::map<model::LimitId, model::LimitRow>& limits);

// The reason that is stored with a waiting run. It names no head of the queue: a new head would
// change the rows of all runs behind it.
std::string_view stored_reason(const sched::WaitingRun& waiting);

class IncrementalScheduler {
 public:
  // each_pass: every pass writes the wait reason of every waiting run into its row. The cost grows
  // with the number of waiting runs. on_demand: only waiting() returns the reasons.
  enum class ReasonUpdates { each_pass, on_demand };

  explicit IncrementalScheduler(const sched::SchedulingPolicy& policy = step_policy(),
                                ReasonUpdates reasons = ReasonUpdates::each_pass)
      : policy_(policy), reason_updates_(reasons) {}

  // Forgets all rows; the next step reads them again.
  void reset();
  // Updates the scheduler with the changes of the draft. True if it may now decide otherwise.
  bool sync(const Draft& draft);
  // Starts runs that fit, preempts runs for others, and writes the wait reasons of the rest.
  void schedule(Draft& draft);

  // Runs that wait for devices, in queue order, as of the last pass; empty before the first.
  const std::vector<sched::WaitingRun>& waiting() const;
  // When these runs start, in the same order: an estimate and a bound (sched/latest_start.h).
  // Computed on request and cached until the next event changes something.
  const std::vector<sched::StartTimes>& start_times() const;
  // The first waiting run that fits on the map.
  std::optional<model::RunId> head() const {
    return scheduler_ ? scheduler_->head() : std::nullopt;
  }
  // The allocations of all runs, ordered by run id.
  std::vector<sched::Allocation> allocations() const;

 private:
  // A run that waits for something else first: the scheduler does not have it.
  struct IneligibleRun {
    sched::PendingRun run;
    bool operator==(const IneligibleRun&) const = default;
  };
  // The scheduler's input for a run.
  using SchedulerInput =
      std::variant<std::monostate, IneligibleRun, sched::PendingRun, sched::Allocation>;

  // True if the scheduler gets this input.
  static bool affects_schedule(const SchedulerInput& input) {
    return std::holds_alternative<sched::PendingRun>(input) ||
           std::holds_alternative<sched::Allocation>(input);
  }

  SchedulerInput input_of(const Draft& draft, const model::RunId& run) const;
  sched::LatestStartInput latest_start_input() const;
  void invalidate_results();
  void load_rows(const Draft& draft);
  bool sync(const Draft& draft, const model::RunId& run);
  bool sync_operator_settings(const Draft& draft);
  void make_scheduler(const Draft& draft);
  void remove_leftovers();
  bool sync_leftovers(const Draft& draft);
  void update(const model::RunId& run, const SchedulerInput& before, const SchedulerInput& now);
  void preempt(Draft& draft, sched::Plan& plan);
  void check_budgets(Draft& draft);
  void check_budget_of(Draft& draft, const std::string& project);
  void update_bucket_reasons(Draft& draft) const;
  bool exceeds_budgets(Draft& draft, const sched::Plan& plan) const;
  void start(Draft& draft, sched::Placement placement);
  void compute_start_times() const;

  const sched::SchedulingPolicy policy_;
  const ReasonUpdates reason_updates_;
  std::unique_ptr<sched::Scheduler> scheduler_;  // null: empty, see reset()
  bool has_placing_engine_ = false;
  std::set<std::string> engine_hosts_;  // among which it chooses; none, before it has named them
  std::map<model::RunId, SchedulerInput> inputs_;
  std::set<model::RunId> unplaced_;  // an engine has chosen the hosts of their attempts
  // The allocations in the scheduler of orphans, of given-up nodes and of the hosts of unplaced
  // attempts, by their allocation ids.
  std::map<model::RunId, sched::Allocation> leftover_allocations_;
  // By project: no run of it in the scheduler must hold more of its budget, on devices of the least
  // weight. A project without an entry was not checked yet.
  std::map<std::string, budget::DeviceTime> need_max_;
  int need_weight_ = 0;  // the least weight, for which need_max_ is right
  sched::Limits limits_;
  Time scheduled_at_{};   // time of the last pass
  Time last_event_at_{};  // time of the last event
  // Computed on request.
  mutable std::optional<std::vector<sched::WaitingRun>> waiting_;
  mutable std::optional<std::vector<sched::StartTimes>> start_times_;
  mutable Time bounds_valid_until_{};  // after it some run exceeds its expected end
};

}  // namespace lockstep::step
