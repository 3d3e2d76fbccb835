// SimEngine: starts, ends and lists the agents on the simulated hosts, over a network that may not
// reach them, for a daemon that may die before or after each act.
#pragma once

#include "platform/engine/engine.h"
#include "sim/hosts.h"
#include "sim/life.h"

namespace lockstep::sim {

// What a launch does while launches fail.
enum class LaunchFault {
  none,
  refused,      // nothing is started, and that is what is said
  answer_lost,  // the agent is started, but the answer says that it failed
};

class SimEngine : public Engine {
 public:
  struct World {
    Scene& scene;
    Life& life;
    Hosts& hosts;
    Network& network;
    Truth& truth;
  };

  SimEngine(const World& world, std::uint64_t seed) : world_(world), dice_(seed, "engine") {}

  Result<void> launch(const Launch& launch) override;
  Result<void> kill(const NodeName& node) override;
  Result<Launch> launch_of(const NodeName& node) override;
  bool has_begun(const NodeName& node) override;
  Result<std::vector<Present>> list() override;

  void set_launch_fault(LaunchFault fault) { launch_fault_ = fault; }
  void set_blind(bool blind) { blind_ = blind; }  // list() fails
  // It says at once what is there.
  bool is_well() const { return !blind_ && slow_ == Duration(0); }
  // Each call does its work and then takes up to that long to answer; zero: it answers at once.
  void set_slow(Duration most) { slow_ = most; }

 private:
  Result<void> start(const Launch& launch);
  Result<void> find_and_kill(const NodeName& node);
  void take_time();

  const World world_;
  Dice dice_;
  LaunchFault launch_fault_ = LaunchFault::none;
  bool blind_ = false;
  Duration slow_{};
};

}  // namespace lockstep::sim
