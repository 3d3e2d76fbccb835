// Faults of the simulation, chosen by the seed. Each kind comes at its own moments. The kinds
// differ from seed to seed, since many faults at once hide the effect of a few.
//
// To add a fault, write a member function that injects it and plans its end, and add a line to
// kinds().
#pragma once

#include <optional>
#include <span>

#include "sim/world/daemon.h"
#include "sim/world/hosts.h"
#include "sim/world/sim_engine.h"
#include "sim/world/sim_store.h"

namespace lockstep::sim {

class FaultInjector {
 public:
  struct FaultComponents {
    SimContext& context;
    CrashPoints& crash_points;
    Daemon& daemon;
    SimStore& store;
    SimEngine& engine;
    Hosts& hosts;
    Network& network;
    GroundTruth& truth;
  };

  FaultInjector(const FaultComponents& components, std::uint64_t seed)
      : components_(components),
        random_(seed, "faults"),
        store_random_(seed, "stores"),
        silence_random_(seed, "silence") {}

  // Faults come until stop_and_undo().
  void begin();
  // Injects no more faults and ends all active ones.
  void stop_and_undo();
  // The time that a dead daemon stays away.
  Duration downtime();

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (FaultInjector::*strike)();
  };
  static std::span<const Kind> kinds();
  static std::span<const Kind> store_kinds();
  static std::span<const Kind> silence_kinds();
  // At moments of that sequence.
  void plan(const Kind& kind, SeededRandom& random);

  void crash_daemon();
  void suspend_daemon();
  void crash_daemon_as_gang_starts();
  void duplicate_reports_over_crash();
  void lose_answers_over_crash();
  void fill_disk();
  void fail_launches();
  void fail_engine_list();
  void slow_engine();
  void delay_kills();
  void kill_any_agent();
  void kill_agent_in_cleanup();
  void suspend_agent();
  void delay_rank_starts();
  void kill_rank();
  void cut_connection();
  void suspend_any_rank();
  void resume_rank_once_seen();
  void crash_host();
  void partition_host();
  void degrade_network();
  void set_clock();
  void move_store_away();
  void restore_store_copy();
  void cut_daemon_off();
  void slow_daemon();
  void call_as_second_agent();

  // `over`: the trace message of the undo.
  void undo_after(Duration duration, std::string over, std::function<void()> undo);
  void plan_daemon_crash();
  void try_crash_as_gang_starts(int polls);
  void record_agent_loss(const Agent& agent);
  void record_host_loss(const Agent& agent);
  void record_node_loss(const Agent& agent);
  void kill_agent(const Agent& agent);
  struct Victim {
    std::shared_ptr<Agent> agent;
    int local_rank = 0;
  };
  std::optional<Victim> any_running_rank();
  void suspend_rank(const Victim& victim, Duration duration);

  const FaultComponents components_;
  SeededRandom random_;
  // For faults of the store, and those that silence many agents: separate sequences, so that seeds
  // without such faults do not change.
  SeededRandom store_random_;
  SeededRandom silence_random_;
  std::int64_t cuts_ = 0;  // of the daemon from its hosts, so far
  bool stopped_ = false;
  std::optional<Duration> downtime_;  // of the daemon, which is about to die
};

}  // namespace lockstep::sim
