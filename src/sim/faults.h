// Faults: what goes wrong in the world, chosen by the seed. Each kind comes at its own moments;
// which kinds there are differs from seed to seed, since many faults at once hide what a few would
// show.
//
// To add one: a member function that does the harm and plans its end, and a line in kinds().
#pragma once

#include <optional>
#include <span>

#include "sim/daemon.h"
#include "sim/hosts.h"
#include "sim/sim_engine.h"
#include "sim/sim_store.h"

namespace lockstep::sim {

class Faults {
 public:
  struct World {
    Scene& scene;
    Life& life;
    Daemon& daemon;
    SimStore& store;
    SimEngine& engine;
    Hosts& hosts;
    Network& network;
    Truth& truth;
  };

  Faults(const World& world, std::uint64_t seed)
      : world_(world), dice_(seed, "faults"), store_dice_(seed, "stores") {}

  // They come until they cease.
  void begin();
  // No more of them, and all that was broken is whole again.
  void cease();
  // How long a dead daemon stays away.
  Duration absence();

 private:
  struct Kind {
    const char* name;
    Duration mean;  // between two of them
    void (Faults::*strike)();
  };
  static std::span<const Kind> kinds();
  static std::span<const Kind> store_kinds();
  void plan(const Kind& kind);

  void daemon_dies();
  void daemon_stands_still();
  void daemon_leaves_a_gang_alone();
  void words_echo_over_a_death();
  void answers_are_lost_over_a_death();
  void disk_fills();
  void launches_fail();
  void engine_is_blind();
  void engine_is_slow();
  void kills_take_long();
  void agent_dies();
  void agent_dies_while_it_clears();
  void agent_stands_still();
  void ranks_start_late();
  void rank_dies();
  void connection_is_cut();
  void rank_stands_still();
  void rank_goes_on_once_seen();
  void host_dies();
  void host_is_cut_off();
  void network_is_bad();
  void clock_jumps();
  void store_is_moved();
  void store_is_put_back();

  // `over`: what is told then.
  template <class Undo>
  void undo_after(Duration duration, std::string over, Undo undo);
  void doom_daemon();
  void leave_alone(int looks);
  void lose_agent(const Agent& agent);
  void kill_agent(const Agent& agent);
  struct Victim {
    std::shared_ptr<Agent> agent;
    int local_rank = 0;
  };
  std::optional<Victim> any_running_rank();
  void stop_rank(const Victim& victim, Duration duration);

  const World world_;
  Dice dice_;
  Dice store_dice_;  // for what befalls the store, so that seeds in which nothing does stay as they
                     // are
  bool ceased_ = false;
  std::optional<Duration> absence_;  // of the daemon, which is about to die
};

}  // namespace lockstep::sim
