// Scheduler: the pass with what it keeps from one decision to the next: an order of those who wait,
// free devices by host and pod, the holders by when they end. So a decision after one event costs
// far less than one from nothing (platform/core/sched/pass.h), and is the same.
//
//   Scheduler scheduler(map, policies::kEasy);
//   scheduler.submit({.run = {"demo", 1}, .nodes = 2, .devices = 8, .limit = hour});
//   for (const Placement& start : scheduler.decide(now).placements) ...  // demo/1 holds devices
//   scheduler.release({"demo", 1});                                      // it has ended
//
// What decide() placed is held from then on, until `limit` after its `now` as far as the scheduler
// expects, and stays held until release(). Everything is told before decide(): first who has ended,
// then who has come; the order of the calls does not matter to what is decided.
//
// Cost: submit, withdraw, hold, release: logarithmic in runs, but for moving 48 bytes for each run
// behind in the order. decide: a few nanoseconds for each run that waits while one of the shapes
// that wait fits somewhere, and tens of microseconds to find when the head can start.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "map/map.h"
#include "platform/core/sched/plan.h"
#include "platform/core/sched/policy.h"

namespace lockstep {

class Scheduler {
 public:
  Scheduler(const Map& map, const SchedulingPolicy& policy);  // keeps no reference to either
  ~Scheduler();
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  // A run comes to wait; it neither waits nor holds devices. One that the map can never hold is
  // welcome: it blocks nobody, and waiting() says so.
  void submit(const Want& want);
  // So many runs are about to be submitted, and to hold devices: spares work when they are many.
  void expect_more(std::size_t waiting, std::size_t holding);
  // It waits no longer, without having started (stopped by its user).
  void withdraw(const RunId& run);
  // A run that was not placed by decide() holds devices (after a restart). It does not wait.
  void hold(const Holding& holding);
  // A run will be told so soon: fetches what is known of its hosts, `far` what finds them.
  void fetch(const Holding& holding, bool far) const;
  // It ends at another time than was expected so far.
  void expect(const RunId& run, Time expected_end);
  // None of its devices is held any more, nor those that were kept for it where it was to move.
  void release(const RunId& run);
  // Of a host whether it takes runs, and why: one clause for people. Names that the map lacks do
  // not matter.
  void set_host(const std::string& host, HostState state, std::string why = {});
  // Instead of all limits so far. Whoever is beyond one keeps what it holds.
  void set_limits(const Limits& limits);

  // Who starts where, and who is moved or evicted for that (Plan::waiting stays empty). `now` never
  // goes back. An evicted run is gone from here on: its owner submits it again. If the policy does
  // not vacate at once, who is to go stays and is marked as leaving until release(); one that moves
  // has devices kept where it goes.
  Plan decide(Time now);
  // The first in the order that still waits, of those that can be placed and that no limit keeps.
  std::optional<RunId> head() const;
  // Why everybody waits who does, in the order in which they stand; to be asked after decide().
  std::vector<WaitingRun> waiting() const;
  // When those start, as starts_in_order() estimates it; in the order of waiting().
  std::vector<std::optional<Time>> estimates() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
