#include "sim/world/hosts.h"

#include <algorithm>

#include "map/query.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStartMin = milliseconds(50);  // from the launch to the agent's first call
constexpr Duration kStartMax = seconds(2);
constexpr Duration kKillMin = milliseconds(1);
constexpr Duration kKillMax = milliseconds(500);

}  // namespace

Hosts::Hosts(const map::ClusterMap& map, const Agent::AgentComponents& components,
             std::uint64_t seed)
    : components_(components), random_(seed, "hosts") {
  for (const map::Host* host : map::hosts(map)) names_.push_back(host->id);
}

Result<void> Hosts::start(const host::LaunchSpec& launch) {
  if (!is_up(launch.host)) return Error{Code::unavailable, "host " + launch.host + " is down"};
  const ProcessId id = ++started_;
  auto agent = std::make_shared<Agent>(components_, id, launch, [this, id] { end_process(id); });
  components_.truth.process_began(
      id, {agent->node(), launch.generation, launch.host, launch.devices, true, launch.first_rank});
  if (start_delay_ > Duration(0) && random_.percent(50)) agent->set_start_delay(start_delay_);
  agent->begin(random_.from_to(kStartMin, kStartMax));
  launches_.insert_or_assign(agent->name(), launch);
  agents_.emplace(id, std::move(agent));
  return {};
}

void Hosts::kill(const model::NodeName& node) {
  std::vector<ProcessId> found;
  for (const auto& [id, agent] : agents_)
    if (agent->name() == node) found.push_back(id);
  for (const auto& [id, process] : leftover_processes_)
    if (process.name() == node) found.push_back(id);
  for (ProcessId id : found)
    components_.context.timeline.after(kill_delay_ + random_.from_to(kKillMin, kKillMax),
                                       [this, id] { end_process(id); });
}

std::set<model::NodeName> Hosts::nodes() const {
  std::set<model::NodeName> nodes;
  for (const auto& [id, agent] : agents_) nodes.insert(agent->name());
  for (const auto& [id, process] : leftover_processes_) nodes.insert(process.name());
  return nodes;
}

std::set<model::NodeName> Hosts::nodes_on(const std::string& host) const {
  std::set<model::NodeName> nodes;
  for (const auto& [id, agent] : agents_)
    if (agent->host() == host) nodes.insert(agent->name());
  for (const auto& [id, process] : leftover_processes_)
    if (process.host == host) nodes.insert(process.name());
  return nodes;
}

const host::LaunchSpec* Hosts::launch_of(const model::NodeName& node) const {
  const auto found = launches_.find(node);
  return found == launches_.end() ? nullptr : &found->second;
}

bool Hosts::has_agent(const model::NodeName& node) const {
  return std::ranges::any_of(agents_,
                             [&](const auto& entry) { return entry.second->name() == node; });
}

void Hosts::kill_agent(ProcessId id) {
  leave_children(*agents_.at(id));
  end_process(id);
}

void Hosts::leave_children(const Agent& agent) {
  const Duration lifetime = agent.program().child_lifetime;
  if (lifetime == Duration(0) || !agent.has_children()) return;
  const ProcessId id = ++started_;
  Process process{agent.node(), agent.launch().generation, agent.host(), agent.launch().devices,
                  false};
  components_.context.trace("host " + agent.host(), "{} leaves a process behind",
                            text(agent.node()));
  components_.truth.process_began(id, process);
  leftover_processes_.emplace(id, std::move(process));
  components_.context.timeline.after(lifetime, [this, id] { end_process(id); });
}

// Has no effect on a process that has already ended.
void Hosts::end_process(ProcessId id) {
  if (const auto agent = agents_.find(id); agent != agents_.end()) {
    const auto kept = agent->second;  // it may be the caller
    agents_.erase(agent);
    kept->kill();
    components_.truth.process_ended(id);
  }
  if (leftover_processes_.erase(id) > 0) components_.truth.process_ended(id);
}

void Hosts::crash(const std::string& host) {
  down_.insert(host);
  std::vector<ProcessId> lost;
  for (const auto& [id, agent] : agents_)
    if (agent->host() == host) lost.push_back(id);
  for (const auto& [id, process] : leftover_processes_)
    if (process.host == host) lost.push_back(id);
  for (ProcessId id : lost) end_process(id);
}

void Hosts::boot(const std::string& host) {
  if (down_.erase(host) > 0) ++boots_[host];
}

int Hosts::boots(const std::string& host) const {
  const auto found = boots_.find(host);
  return found == boots_.end() ? 0 : found->second;
}

}  // namespace lockstep::sim
