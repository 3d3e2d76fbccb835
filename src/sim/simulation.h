// Simulation: the real controller over simulated hosts, with users, operators and faults from one
// seed.
//
//   const SimulationOutcome outcome = Simulation({.seed = 1234}).run();
//
// It sends requests, applies commands and injects faults, and makes no decision that belongs to the
// platform. The same setup gives the same simulation, to the last event: `lockstep-sim --seed 1234`
// replays a failing seed with a trace.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "platform/engine/composite_engine.h"
#include "sim/checks/deadline_checker.h"
#include "sim/checks/invariant_checker.h"
#include "sim/checks/queue_promise_checker.h"
#include "sim/faults/cluster_faults.h"
#include "sim/faults/fault_injector.h"
#include "sim/faults/host_faults.h"
#include "sim/sim_history.h"
#include "sim/sim_settings.h"
#include "sim/world/budgets.h"
#include "sim/world/joined_engine.h"
#include "sim/world/joined_hosts.h"
#include "sim/world/operators.h"
#include "sim/world/placing_engine.h"
#include "sim/world/shared_cluster.h"
#include "sim/world/users.h"

namespace lockstep::sim {

// Lockstep or its engine chooses the hosts of runs. both: there are two engines, each with hosts of
// its own, and one of them chooses.
enum class ChosenBy { lockstep, engine, both };
// The values of `lockstep-sim --engine-places`.
constexpr auto enum_names(ChosenBy) {
  return names<ChosenBy>(
      {{ChosenBy::lockstep, "none"}, {ChosenBy::engine, "all"}, {ChosenBy::both, "some"}});
}

struct SimulationSetup {
  std::uint64_t seed = 1;
  TraceSink trace{};
  std::optional<map::ClusterMap> map{};  // absent: one chosen by the seed
  // The hosts of the map join and leave; absent: so it is in a quarter of the seeds.
  std::optional<bool> hosts_join{};
  // An engine chooses in a cluster that others use too. Absent: it has all hosts in 15 % of the
  // seeds, and a part of them in 12 %.
  std::optional<ChosenBy> chosen_by{};
  std::function<Duration()> downtime{};  // of a daemon that died; empty: chosen by the seed
  // Let tests put a wrapper between the controller and the simulated store or engine, to check that
  // its errors are found. The returned object must outlive the simulation.
  std::function<store::Store&(store::Store&)> wrap_store{};
  std::function<engine::Engine&(engine::Engine&, Hosts&)> wrap_engine{};
  model::Settings settings = simulated_settings();  // of the daemon; the checks expect these
};

struct SimulationOutcome {
  std::optional<std::string> violation;  // the first, with its time
  std::int64_t events = 0;
  std::int64_t commits = 0;
  int crashes = 0;  // of the daemon
  int runs = 0;
  int attempts = 0;
  int succeeded = 0;

  bool operator==(const SimulationOutcome&) const = default;
};

class Simulation {
 public:
  // Log lines go to the trace while the simulation exists; there is one at a time.
  explicit Simulation(const SimulationSetup& setup);
  ~Simulation();
  Simulation(const Simulation&) = delete;  // its parts point to one another
  Simulation& operator=(const Simulation&) = delete;

  // Users, operators and faults for a while, then none of them until every run has ended.
  SimulationOutcome run();

  // For stories of one's own, without the seed's users and faults: begin(); then time passes until
  // `done`, a violation, or `most`, which is false; at last settle(), as run() ends.
  SimContext& context() { return context_; }
  CrashPoints& crash_points() { return crash_points_; }
  Daemon& daemon() { return daemon_; }
  GroundTruth& truth() { return truth_; }
  Hosts& hosts() { return hosts_; }
  Network& network() { return network_; }
  SimEngine& engine() { return engine_; }
  JoinedHosts& joined_hosts() { return joined_hosts_; }
  SharedCluster& cluster() { return cluster_; }
  PlacingEngine& placing_engine() { return placing_engine_; }
  const model::State& durable() const { return durable_; }
  void begin();
  bool advance(Duration most, const std::function<bool()>& done);
  void run_to_rest();
  SimulationOutcome result() const;

 private:
  controller::ControllerSetup controller_setup(const SimulationSetup& setup);
  bool has_placing_engine() const { return chosen_by_ != ChosenBy::lockstep; }
  engine::Engine& engine_of_daemon();
  std::unique_ptr<engine::CompositeEngine> make_both_engines();
  std::string placing_engine_name() const;
  bool is_idle() const;
  bool is_well();
  bool is_engine_well() const;
  void after_tick();
  void after_event();

  const std::uint64_t seed_;
  const bool hosts_join_;
  const ChosenBy chosen_by_;
  const model::Settings settings_;
  SimContext context_;
  model::State durable_;
  const map::ClusterMap map_;               // if hosts join: of all machines that there are
  const map::ClusterMap hosts_of_cluster_;  // those among which the engine chooses
  CrashPoints crash_points_{context_};
  GroundTruth truth_;
  Training training_;
  Network network_;
  Hosts hosts_;
  SimStore store_{context_, crash_points_, truth_, durable_};
  SimHistory history_;
  SimEngine engine_;
  JoinedEngine joined_engine_;
  SharedCluster cluster_;
  PlacingEngine placing_engine_;
  std::unique_ptr<engine::CompositeEngine> both_engines_;  // if there are two
  Daemon daemon_;
  JoinedHosts joined_hosts_;
  FaultInjector faults_;
  HostFaults host_faults_;
  ClusterFaults cluster_faults_;
  People people_;
  Users users_;
  Operators operators_;
  Budgets budgets_;
  InvariantChecker invariants_;
  DeadlineChecker deadlines_{context_, truth_, durable_, simulated_settings()};
  QueuePromiseChecker promises_;
  std::int64_t checked_commits_ = -1;        // the commits that were checked
  int store_replacements_ = 0;               // of the store, at the last event
  std::int64_t queue_checked_commits_ = -1;  // likewise, after a tick
  int ticks_ = 0;
  int crashes_ = 0;            // of the daemon, at the last tick
  std::int64_t refusals_ = 0;  // of the store, likewise
};

}  // namespace lockstep::sim
