// DeadlineChecker: the limits within which the daemon must keep its promises, counted from the
// moment when no fault prevents that. It checks them after the daemon's ticks.
//
// Time does not count while anything but an agent or a rank is faulty: the daemon was away,
// its disk is full, its engine is slow or cannot list, messages get lost, killed processes do not
// end. A clock that jumps is no excuse. The daemon must handle agents that die or are suspended.
#pragma once

#include <chrono>

#include "platform/core/model/state.h"
#include "sim/checks/ground_truth.h"
#include "sim/sim_context.h"

namespace lockstep::sim {

// Between two kills of a node, as docs/design/attempts.md promises.
inline constexpr Duration kKillInterval = std::chrono::seconds(5);

class DeadlineChecker {
 public:
  DeadlineChecker(SimContext& context, const GroundTruth& truth, const model::State& durable,
                  const model::Settings& settings)
      : context_(context), truth_(truth), durable_(durable), settings_(settings) {}

  // Call after a tick. `well`: no fault is active.
  void check(bool well);

 private:
  void check_attempt(const model::Attempt& attempt, const model::Run& run);
  void check_orphans() const;
  void check_start(const model::Attempt& attempt);
  Time begin_of(const model::Attempt& attempt) const;
  bool waits_at_engine(const model::Node& node) const;
  Duration margin() const;
  void check_silence(const model::Node& node);
  void check_kill(const model::Attempt& attempt, const model::Node& node);
  void check_time_out(const model::Attempt& attempt, const model::Run& run);
  void check_end(const model::Attempt& attempt);
  bool is_to_be_killed(const model::Attempt& attempt, const model::Node& node) const;
  bool has_lost_agent(const model::Node& node) const;
  // The time since that moment, or the time without a fault if that is shorter.
  Duration time_since(Time moment) const;
  // Likewise, and without the time for which many nodes were silent at once.
  Duration calm_time_since(Time moment) const;

  SimContext& context_;
  const GroundTruth& truth_;
  const model::State& durable_;
  const model::Settings settings_;
  // On the timeline:
  Duration checked_{};  // the last time
  Duration well_{};     // since then
  Duration calm_{};     // the last end of a time in which many nodes were silent
  bool is_widespread_ = false;
};

}  // namespace lockstep::sim
