// Faults: what goes wrong in the world, chosen by the seed. Each kind comes at its own moments;
// which kinds there are differs from seed to seed, since many faults at once hide what a few would
// show.
//
// To add one: a member function that does the harm and plans its end, and a line in kinds().
#pragma once

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

  Faults(const World& world, std::uint64_t seed) : world_(world), dice_(seed, "faults") {}

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
  void plan(const Kind& kind);

  void daemon_dies();
  void daemon_stands_still();
  void words_echo_over_a_death();
  void answers_are_lost_over_a_death();
  void disk_fills();
  void launches_fail();
  void engine_is_blind();
  void engine_is_slow();
  void kills_take_long();
  void agent_dies();
  void agent_stands_still();
  void rank_dies();
  void rank_stands_still();
  void host_dies();
  void host_is_cut_off();
  void network_is_bad();
  void clock_jumps();

  // `over`: what is told then.
  template <class Undo>
  void undo_after(Duration duration, std::string over, Undo undo);
  void doom_daemon();
  void lose_agent(const Agent& agent);

  const World world_;
  Dice dice_;
  bool ceased_ = false;
};

}  // namespace lockstep::sim
