// Hosts: the machines of the map and the processes on them: agents, and what killed agents leave
// behind. They start, die and come back empty.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "map/map.h"
#include "sim/agent.h"
#include "sim/truth.h"

namespace lockstep::sim {

class Hosts {
 public:
  Hosts(const Map& map, const Agent::World& world, std::uint64_t seed);

  // Another agent for the node, whatever is there already.
  Result<void> start(const Launch& launch);
  // SIGKILL to all processes of the node; those that are stuck in the kernel end later.
  void kill(const NodeName& node);
  // Nodes of which a process is left.
  std::set<NodeName> nodes() const;
  bool has_agent(const NodeName& node) const;
  // What such a node was launched with; null if it never was.
  const Launch* launch_of(const NodeName& node) const;

  // What may befall them.
  void crash(const std::string& host);
  void boot(const std::string& host);
  bool is_up(const std::string& host) const { return !down_.contains(host); }
  // How long processes resist SIGKILL from now on.
  void set_stuck(Duration duration) { stuck_ = duration; }
  bool kills_at_once() const { return stuck_ == Duration(0); }
  // How long half of the agents take to start their ranks that are launched from now on.
  void set_late(Duration duration) { late_ = duration; }
  // Kills the agent; children of its ranks may stay.
  void kill_agent(ProcessId id);

  const std::map<ProcessId, std::shared_ptr<Agent>>& agents() const { return agents_; }
  const std::vector<std::string>& names() const { return names_; }

 private:
  void leave_behind(const Agent& agent);
  void end_process(ProcessId id);

  const Agent::World world_;
  Dice dice_;
  std::vector<std::string> names_;
  std::set<std::string> down_;
  Duration stuck_{};
  Duration late_{};
  ProcessId started_ = 0;
  std::map<ProcessId, std::shared_ptr<Agent>> agents_;  // shared: see agent.h
  std::map<ProcessId, Process> left_behind_;
  std::map<NodeName, Launch> launches_;  // the newest of each node
};

}  // namespace lockstep::sim
