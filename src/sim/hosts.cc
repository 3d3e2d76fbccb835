#include "sim/hosts.h"

#include <algorithm>

#include "map/query.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStartLeast = milliseconds(50);  // from the launch to the agent's first call
constexpr Duration kStartMost = seconds(2);
constexpr Duration kKillLeast = milliseconds(1);
constexpr Duration kKillMost = milliseconds(500);

}  // namespace

Hosts::Hosts(const Map& map, const Agent::World& world, std::uint64_t seed)
    : world_(world), dice_(seed, "hosts") {
  for (const Host* host : hosts(map)) names_.push_back(host->id);
}

Result<void> Hosts::start(const Launch& launch) {
  if (!is_up(launch.host)) return Error{Code::unavailable, "host " + launch.host + " is down"};
  const ProcessId id = ++started_;
  auto agent = std::make_shared<Agent>(world_, id, launch, [this, id] { end_process(id); });
  world_.truth.process_began(id,
                             {agent->node(), launch.generation, launch.host, launch.devices, true});
  if (late_ > Duration(0) && dice_.percent(50)) agent->start_late(late_);
  agent->begin(dice_.from_to(kStartLeast, kStartMost));
  launches_.insert_or_assign(agent->name(), launch);
  agents_.emplace(id, std::move(agent));
  return {};
}

void Hosts::kill(const NodeName& node) {
  std::vector<ProcessId> found;
  for (const auto& [id, agent] : agents_)
    if (agent->name() == node) found.push_back(id);
  for (const auto& [id, process] : left_behind_)
    if (process.name() == node) found.push_back(id);
  for (ProcessId id : found)
    world_.scene.timeline.after(stuck_ + dice_.from_to(kKillLeast, kKillMost),
                                [this, id] { end_process(id); });
}

std::set<NodeName> Hosts::nodes() const {
  std::set<NodeName> nodes;
  for (const auto& [id, agent] : agents_) nodes.insert(agent->name());
  for (const auto& [id, process] : left_behind_) nodes.insert(process.name());
  return nodes;
}

const Launch* Hosts::launch_of(const NodeName& node) const {
  const auto found = launches_.find(node);
  return found == launches_.end() ? nullptr : &found->second;
}

bool Hosts::has_agent(const NodeName& node) const {
  return std::ranges::any_of(agents_,
                             [&](const auto& entry) { return entry.second->name() == node; });
}

void Hosts::kill_agent(ProcessId id) {
  leave_behind(*agents_.at(id));
  end_process(id);
}

void Hosts::leave_behind(const Agent& agent) {
  const Duration lifetime = agent.program().left_behind;
  if (lifetime == Duration(0) || !agent.has_children()) return;
  const ProcessId id = ++started_;
  Process process{agent.node(), agent.launch().generation, agent.host(), agent.launch().devices,
                  false};
  world_.scene.tell("host " + agent.host(), "{} leaves a process behind", text(agent.node()));
  world_.truth.process_began(id, process);
  left_behind_.emplace(id, std::move(process));
  world_.scene.timeline.after(lifetime, [this, id] { end_process(id); });
}

// Of a process that has ended already nothing happens.
void Hosts::end_process(ProcessId id) {
  if (const auto agent = agents_.find(id); agent != agents_.end()) {
    const auto kept = agent->second;  // it may be the caller
    agents_.erase(agent);
    kept->die();
    world_.truth.process_ended(id);
  }
  if (left_behind_.erase(id) > 0) world_.truth.process_ended(id);
}

void Hosts::crash(const std::string& host) {
  down_.insert(host);
  std::vector<ProcessId> lost;
  for (const auto& [id, agent] : agents_)
    if (agent->host() == host) lost.push_back(id);
  for (const auto& [id, process] : left_behind_)
    if (process.host == host) lost.push_back(id);
  for (ProcessId id : lost) end_process(id);
}

void Hosts::boot(const std::string& host) { down_.erase(host); }

}  // namespace lockstep::sim
