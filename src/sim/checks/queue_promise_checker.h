// QueuePromiseChecker: the promises to waiting runs, checked after the daemon's ticks. No run waits
// longer than it has to, and its reported position and start are correct.
//
// A run starts no later than any start that was reported, unless an assumption of the bound is
// broken: the daemon is away or cannot act; a host, a limit, a priority or a hold is changed; a run
// exceeds its time limit; or a run comes that may pass it: one that was submitted, resumed or
// interrupted.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/core/model/state.h"
#include "platform/core/step/starting/incremental_scheduler.h"
#include "sim/checks/scheduling_oracle.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

class QueuePromiseChecker {
 public:
  // overhead: the overhead of the policy.
  QueuePromiseChecker(SimContext& context, Duration overhead)
      : context_(context), overhead_(overhead) {}

  // After a tick that could be stored.
  void check(const model::State& state, const step::IncrementalScheduler& queue);
  // After each tick. `well`: no fault hinders the daemon.
  void check_latest_starts(const model::State& state, const step::IncrementalScheduler& queue,
                           bool well);

 private:
  void check_preconditions(const CommitView& rows, const model::Run& run);
  void check_order(const model::State& state, const std::vector<sched::WaitingRun>& reported,
                   const QueueSnapshot& snapshot);
  void check_overtaking(const model::State& state, const std::vector<model::RunId>& order,
                        const sched::NaiveQueue::Keys& keys);
  void check_start(const std::vector<sched::WaitingRun>& reported, const QueueSnapshot& snapshot);

  // The state of a run that is compared between two ticks.
  struct LastState {
    bool waits = false;  // and is not held
    std::int64_t epoch = 0;
    int priority = 0;
    Duration extended{};  // of its time limit
    bool operator==(const LastState&) const = default;
  };
  // On the timeline.
  struct Promise {
    Duration latest{};
    Duration key{};      // the greatest of the runs ahead, and its own
    Duration longest{};  // limit of the others
  };
  Duration on_timeline(Time moment) const { return moment - context_.clock.at(Duration(0)); }
  Duration key_of(const model::Run& run) const;
  bool assumptions_broken(const model::State& state, bool well);
  bool any_run_outlives_end(const model::State& state);
  bool is_unchanged(const model::Run& run) const;
  void drop_promises_passed_by_new_runs(const model::State& state);
  void check_kept(const model::State& state);
  void record_promises(const model::State& state, const step::IncrementalScheduler& queue);

  SimContext& context_;
  const Duration overhead_;
  Duration checked_{};  // on the timeline
  std::map<model::RunId, LastState> last_states_;
  map::ClusterMap map_;
  std::map<std::string, model::HostState> hosts_;
  std::map<model::LimitId, model::LimitRow> limits_;
  std::map<model::AttemptId, Duration>
      ends_;  // on the timeline: the earliest that promises count on
  std::map<model::RunId, Promise> promises_;
};

}  // namespace lockstep::sim
