#include "platform/controller/engine_news.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "map/query.h"

namespace lockstep::controller {
namespace {

const std::string kAvailable;  // no reason why a host is unavailable

// True if the node's row does not say this already.
bool is_news(const model::Node& node, const model::Observation& seen) {
  return seen.phase == model::NodePhase::gone || !seen.has_agent ||
         node.pending_reason != model::pending_reason_of(seen) ||
         (!seen.handle.empty() && seen.handle != node.handle) ||
         (!seen.incarnation.empty() && seen.incarnation != node.incarnation) ||
         (!seen.host.empty() && node.host.empty());
}

// The first news of an attempt's end gives its cause. An engine may end other nodes too because a
// host of theirs has failed.
bool is_host_failure(const model::Event& event) {
  const model::Observation& seen = std::get<model::NodeSeen>(event).seen;
  return seen.phase == model::NodePhase::gone && seen.blame == model::EndBlame::host;
}

// Its attempt does not wait for it.
bool is_over(const model::State& state, const model::Node& node) {
  const model::Attempt* attempt = model::live_attempt(state, node.id.attempt.run);
  return !attempt || attempt->id != node.id.attempt || node.state == model::NodeState::released;
}

const std::string& engine_of(const model::State& state, const model::NodeId& node) {
  return state.attempts.at(node.attempt).engine;
}

}  // namespace

bool is_listed(const engine::EngineList& listed, const model::NodeName& node) {
  return std::ranges::find(listed.nodes, node, &engine::ListedNode::node) != listed.nodes.end();
}

std::vector<model::Event> news_of_nodes(const model::State& state,
                                        const std::vector<model::NodeId>& awaited,
                                        const engine::EngineList& listed) {
  std::map<model::NodeName, const model::Observation*> seen;
  for (const engine::ListedNode& node : listed.nodes) seen.emplace(node.node, &node.seen);
  const model::Observation gone{.phase = model::NodePhase::gone};
  std::vector<model::Event> news;
  for (const model::NodeId& id : awaited) {
    const model::Node& node = state.nodes.at(id);
    const model::NodeName name = name_of(state, id);
    const auto found = seen.find(name);
    if (found == seen.end() && listed.may_exist(name, node.host, engine_of(state, id))) continue;
    const model::Observation& what = found == seen.end() ? gone : *found->second;
    if (is_news(node, what)) news.emplace_back(model::NodeSeen{id, what});
  }
  std::ranges::stable_partition(news, is_host_failure);
  return news;
}

std::vector<model::NodeSeen> returned_nodes(const model::State& state,
                                            const engine::EngineList& listed) {
  std::vector<model::NodeSeen> returned;
  for (const engine::ListedNode& one : listed.nodes) {
    const bool is_live =
        one.seen.phase == model::NodePhase::present || one.seen.phase == model::NodePhase::pending;
    if (!is_live || !model::has_node(state, one.node) || state.given_up.contains(one.node.id))
      continue;
    const model::Node& node = state.nodes.at(one.node.id);
    if (is_over(state, node) && listed.why_unknown(node.host, engine_of(state, node.id)).empty())
      returned.push_back({node.id, one.seen});
  }
  return returned;
}

std::vector<model::NodeId> ended_given_up_nodes(const model::State& state,
                                                const engine::EngineList& listed) {
  std::vector<model::NodeId> ended;
  for (const auto& [id, node] : state.given_up) {
    if (!model::has_engine(state, node.engine)) continue;
    const model::NodeName name{node.generation, id};
    const auto found = std::ranges::find(listed.nodes, name, &engine::ListedNode::node);
    if (found != listed.nodes.end() ? found->seen.phase == model::NodePhase::gone
                                    : !listed.may_exist(name, node.devices.host, node.engine))
      ended.push_back(id);
  }
  return ended;
}

std::set<std::string> silent_hosts(const model::State& state, const engine::EngineList& listed) {
  std::set<std::string> silent = listed.silent;
  for (const map::Host* host : map::hosts(state.map))
    if (listed.answered && !listed.answered->contains(host->id)) silent.insert(host->id);
  return silent;
}

HostNews news_of_hosts(const model::State& state, const engine::EngineList& listed) {
  HostNews news;
  for (const map::Host* host : map::hosts(state.map)) {
    const auto row = state.hosts.find(host->id);
    const std::string now = listed.why_closed(host->id);
    const std::string& before = row == state.hosts.end() ? kAvailable : row->second.unavailable;
    if (!now.empty()) news.seen.unavailable.emplace(host->id, now);
    if (now == before) continue;
    news.changes.push_back(
        format("host {} is {}{}", host->id, now.empty() ? "available" : "unavailable: ", now));
  }
  return news;
}

}  // namespace lockstep::controller
