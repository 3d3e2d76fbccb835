// SimEngine: starts, ends and lists the agents on the simulated hosts. The network may not reach
// them, and the daemon may die before or after each start, kill and list. Queued starts and kills
// die with the daemon, as the threads of a real engine do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "platform/engine/engine.h"
#include "sim/faults/crash_points.h"
#include "sim/world/engine_faults.h"
#include "sim/world/hosts.h"

namespace lockstep::sim {

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
      : components_(components),
        random_(seed, "engine"),
        tells_unreachable_hosts_(SeededRandom(seed, "unreachable hosts").percent(50)) {}

  // It has nothing to do with these hosts: they are those of another engine.
  void leave_out(const map::ClusterMap& hosts);

  std::string_view name() const override { return "simulated"; }
  void submit(engine::Gang gang) override;
  void kill(const model::NodeName& node) override;
  Result<engine::EngineList> list() override;

  void set_starts_fail(bool fail) { faults_.starts_fail = fail; }
  void set_list_fails(bool blind) { faults_.list_fails = blind; }
  void set_slow(Duration most) { faults_.slow = most; }
  const EngineFaults& faults() const { return faults_; }
  // True if it acts at once and lists correctly, and can ask all hosts.
  bool is_well() const {
    return !faults_.list_fails && faults_.slow == Duration(0) && unreachable_hosts().empty();
  }

 private:
  // A node that no list shows yet. failure: why it could not be started.
  struct Submission {
    bool is_queued = true;
    std::optional<std::string> failure{};
  };

  void begin_life();
  void after_delay(std::function<void()> act);
  void start(const host::LaunchSpec& launch);
  Result<void> start_agent(const host::LaunchSpec& launch);
  void record_failure(const model::NodeName& node, const std::string& reason);
  void kill_processes(const model::NodeName& node);
  void look();
  std::map<std::string, std::string> unreachable_hosts() const;
  bool is_of_another_engine(const model::NodeName& node) const;

  const EngineComponents components_;
  SeededRandom random_;
  const bool tells_unreachable_hosts_;  // or nodes fail to start there
  std::set<std::string> left_out_;      // hosts
  EngineFaults faults_;

  // These belong to the present daemon:
  int life_ = -1;
  bool is_looking_ = false;
  Duration looked_at_{};  // on the timeline
  std::optional<std::vector<engine::ListedNode>> seen_;
  std::map<model::NodeName, Submission> submissions_;
};

}  // namespace lockstep::sim
