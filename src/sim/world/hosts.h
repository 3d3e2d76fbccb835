// Hosts: the machines of the map and their processes: agents, and the remains of killed agents. A
// host can crash and boot again without processes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "map/map.h"
#include "sim/checks/ground_truth.h"
#include "sim/world/agent.h"

namespace lockstep::sim {

class Hosts {
 public:
  Hosts(const map::ClusterMap& map, const Agent::AgentComponents& components, std::uint64_t seed);

  // Starts an agent for the node, even if one exists already.
  Result<void> start(const host::LaunchSpec& launch);
  // SIGKILL to all processes of the node; those that are stuck in the kernel end later.
  void kill(const model::NodeName& node);
  // Nodes with a live process.
  std::set<model::NodeName> nodes() const;
  // Those on this host.
  std::set<model::NodeName> nodes_on(const std::string& host) const;
  bool has_agent(const model::NodeName& node) const;
  // The launch of such a node; null if there was none.
  const host::LaunchSpec* launch_of(const model::NodeName& node) const;

  // Faults of hosts.
  void crash(const std::string& host);
  void boot(const std::string& host);
  bool is_up(const std::string& host) const { return !down_.contains(host); }
  // How often it has booted after a crash.
  int boots(const std::string& host) const;
  // How long processes resist SIGKILL from now on.
  void set_kill_delay(Duration duration) { kill_delay_ = duration; }
  bool kills_at_once() const { return kill_delay_ == Duration(0); }
  // Half of the agents that are launched from now on take that long to start their ranks.
  void set_start_delay(Duration duration) { start_delay_ = duration; }
  // Kills the agent; children of its ranks may stay.
  void kill_agent(ProcessId id);

  const std::map<ProcessId, std::shared_ptr<Agent>>& agents() const { return agents_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void leave_children(const Agent& agent);
  void end_process(ProcessId id);

  const Agent::AgentComponents components_;
  SeededRandom random_;
  std::vector<std::string> names_;
  std::set<std::string> down_;
  std::map<std::string, int> boots_;
  Duration kill_delay_{};
  Duration start_delay_{};
  ProcessId started_ = 0;
  std::map<ProcessId, std::shared_ptr<Agent>> agents_;  // shared: see agent.h
  std::map<ProcessId, Process> leftover_processes_;
  std::map<model::NodeName, host::LaunchSpec> launches_;  // the newest of each node
};

}  // namespace lockstep::sim
