// SimEngine: starts, ends and lists the agents on the simulated hosts. The network may not reach
// them, and the daemon may die before or after each call.
#pragma once

#include "platform/engine/engine.h"
#include "sim/faults/crash_points.h"
#include "sim/world/hosts.h"

namespace lockstep::sim {

// The behaviour of a launch while launches fail.
enum class LaunchFault {
  none,
  refused,      // nothing is started, and the error says so
  answer_lost,  // the agent is started, but the answer says that it failed
};

class SimEngine : public engine::Engine {
 public:
  struct EngineComponents {
    SimContext& context;
    CrashPoints& crash_points;
    Hosts& hosts;
    Network& network;
    GroundTruth& truth;
  };

  SimEngine(const EngineComponents& components, std::uint64_t seed)
      : components_(components), random_(seed, "engine") {}

  Result<void> launch(const engine::LaunchSpec& launch) override;
  Result<void> kill(const model::NodeName& node) override;
  Result<engine::LaunchSpec> read_launch_spec(const model::NodeName& node) override;
  bool has_started(const model::NodeName& node) override;
  Result<std::vector<engine::RunningNode>> list() override;

  void set_launch_fault(LaunchFault fault) { launch_fault_ = fault; }
  void set_list_fails(bool blind) { list_fails_ = blind; }  // list() fails
  // True if it answers at once and lists correctly.
  bool is_well() const { return !list_fails_ && slow_ == Duration(0); }
  // Each call does its work and then takes up to that long to answer; zero: no delay.
  void set_slow(Duration most) { slow_ = most; }

 private:
  Result<void> start(const engine::LaunchSpec& launch);
  Result<void> find_and_kill(const model::NodeName& node);
  void delay_answer();

  const EngineComponents components_;
  SeededRandom random_;
  LaunchFault launch_fault_ = LaunchFault::none;
  bool list_fails_ = false;
  Duration slow_{};
};

}  // namespace lockstep::sim
