#include "sim/checks/host_checker.h"

#include <algorithm>
#include <utility>

#include "map/query.h"

namespace lockstep::sim {
namespace {

const model::HostRow* find_host_row(const model::State& durable, const Commit& commit,
                                    const std::string& id) {
  if (const auto changed = commit.hosts.find(id); changed != commit.hosts.end())
    return changed->second;
  const auto known = durable.hosts.find(id);
  return known == durable.hosts.end() ? nullptr : &known->second;
}

}  // namespace

std::set<std::string> hosts_removed_as_lost(const model::State& durable, const Commit& commit) {
  std::set<std::string> removed;
  for (const auto& [id, host] : commit.hosts) {
    const auto before = durable.hosts.find(id);
    const bool leaves = before != durable.hosts.end() && model::has_joined(before->second) &&
                        !model::has_joined(*host);
    if (leaves && !host->audit.empty() && host->audit.back().what == "removed as lost")
      removed.insert(id);
  }
  return removed;
}

bool HostChecker::is_unknown(const std::string& host) const {
  return !map::find_host(durable_.map, host) || !list_().why_unavailable(host).empty();
}

void HostChecker::check(const Commit& commit) const {
  if (!durable_.hosts_make_map) return;
  const map::ClusterMap map = map_after(durable_, commit);
  for (const auto& [id, node] : commit.nodes) {
    const auto before = durable_.nodes.find(id);
    const bool is_new = before == durable_.nodes.end();
    if (is_new && !adopts(durable_, commit, id.attempt.run)) check_placement(commit, map, *node);
    const bool was_released = !is_new && before->second.state == model::NodeState::released;
    if (node->state == model::NodeState::released && !was_released) check_release(commit, *node);
  }
}

void HostChecker::check_placement(const Commit& commit, const map::ClusterMap& map,
                                  const model::Node& node) const {
  const map::Host* const host = map::find_host(map, node.host);
  if (!host)
    return context_.report_violation(
        format("{} is placed on {}, which is not on the map", text(node.id), node.host));
  const bool exist = std::ranges::all_of(
      node.devices, [&](int index) { return std::cmp_less(index, map::device_count(*host)); });
  if (!exist)
    context_.report_violation(format("{} is placed on devices [{}] of {}, which has {}",
                                     text(node.id), joined(node.devices, " "), node.host,
                                     map::device_count(*host)));
  const model::HostRow& row = *find_host_row(durable_, commit, node.host);
  if (const std::string why = model::why_unusable(row); !why.empty())
    context_.report_violation(
        format("{} is placed on {}, which cannot be used: {}", text(node.id), node.host, why));
}

// Nothing is known of a host that has not called this daemon or is silent, except that a node never
// started.
void HostChecker::check_release(const Commit& commit, const model::Node& node) const {
  if (hosts_removed_as_lost(durable_, commit).contains(node.host)) return;
  const engine::EngineList listed = list_();
  const auto& attempt = durable_.attempts.at(node.id.attempt);
  const auto seen = std::ranges::find(listed.nodes, model::NodeName{attempt.generation, node.id},
                                      &engine::ListedNode::node);
  if (seen != listed.nodes.end() && seen->seen.phase == model::NodePhase::gone) return;
  if (const std::string why = listed.why_unavailable(node.host); !why.empty())
    context_.report_violation(format("{} is released, and its host {} cannot be asked: {}",
                                     text(node.id), node.host, why));
}

}  // namespace lockstep::sim
