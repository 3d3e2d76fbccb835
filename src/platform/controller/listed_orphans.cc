#include "platform/controller/listed_orphans.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "map/query.h"
#include "platform/core/model/hosts_by_placement.h"

namespace lockstep::controller {
namespace {

// From its launch record. A node without a record is assumed to use its whole host.
model::Orphan orphan_of(const model::State& state, const engine::ListedNode& listed, Time now) {
  model::Orphan orphan{.id = listed.node,
                       .has_agent = listed.seen.has_agent,
                       .attempt_record = {},
                       .devices = {},
                       .engine = listed.engine};
  if (!listed.record || !listed.record->error.empty()) {
    LS_LOG(warning, "what {} is, which another store has started here, is not known: {}",
           text(listed.node), listed.record ? listed.record->error : "it has no launch record");
    return orphan;
  }
  const engine::LaunchRecord& launch = *listed.record;
  orphan.attempt_record = launch.attempt;
  const map::Host* const host = map::find_host(state.map, launch.host);
  const auto index = static_cast<std::size_t>(listed.node.id.index);
  if (launch.attempt && index < launch.attempt->devices.size()) {
    orphan.devices = launch.attempt->devices[index];
    if (host)
      orphan.devices.devices = map::current_indices(*host, orphan.devices.devices, launch.devices);
    orphan.expected_end = launch.attempt->created + launch.time_left;
    return orphan;
  }
  orphan.devices.host = launch.host;
  if (host)
    for (int device = 0; std::cmp_less(device, map::device_count(*host)); ++device)
      orphan.devices.devices.push_back(device);
  orphan.expected_end = now + launch.time_left;
  return orphan;
}

// Its launch record was unknown before, or its host was not on the map.
bool has_other_devices(const model::State& state, const model::Orphan& known,
                       const engine::ListedNode& listed, Time now) {
  if (!listed.record || !listed.record->error.empty()) return false;
  return orphan_of(state, listed, now).devices != known.devices;
}

// True if no list can tell of some host of the orphan's engine: the host of the orphan is unknown.
bool may_be_on_unheard_host(const model::State& state, const std::set<std::string>& unheard,
                            const std::string& engine) {
  return std::ranges::any_of(state.map.pods, [&](const map::Pod& pod) {
    if (!engine.empty() && model::engine_of(state, pod) != engine) return false;
    return std::ranges::any_of(map::hosts(pod),
                               [&](const map::Host* host) { return unheard.contains(host->id); });
  });
}

// A list that does not have an orphan means that it is gone, unless it may be on a host of the map
// that cannot be asked, or its engine gave no list.
void add_unheard_orphans(const model::State& state, const engine::EngineList& listed,
                         std::vector<model::Orphan>& orphans) {
  std::set<std::string> unheard;
  for (const map::Host* host : map::hosts(state.map))
    if (!listed.why_unavailable(host->id).empty()) unheard.insert(host->id);
  for (const auto& [name, orphan] : state.orphans) {
    if (std::ranges::find(orphans, name, &model::Orphan::id) != orphans.end()) continue;
    const std::string& host = orphan.devices.host;
    const bool is_unknown = listed.unknown_projects.contains(name.id.attempt.run.project) ||
                            listed.unlisted.contains(orphan.engine);
    if (is_unknown || (host.empty() ? may_be_on_unheard_host(state, unheard, orphan.engine)
                                    : unheard.contains(host)))
      orphans.push_back(orphan);
  }
}

}  // namespace

std::optional<model::OrphansListed> listed_orphans(const model::State& state,
                                                   const engine::EngineList& listed, Time now) {
  model::OrphansListed seen;
  bool changed = false;
  for (const engine::ListedNode& node : listed.nodes) {
    if (node.seen.phase == model::NodePhase::gone || model::has_node(state, node.node)) continue;
    const auto known = state.orphans.find(node.node);
    const bool is_new = known == state.orphans.end() || !state.engine_has_listed ||
                        has_other_devices(state, known->second, node, now);
    seen.orphans.push_back(is_new ? orphan_of(state, node, now) : known->second);
    changed = changed || is_new || known->second.has_agent != node.seen.has_agent;
    seen.orphans.back().has_agent = node.seen.has_agent;
  }
  add_unheard_orphans(state, listed, seen.orphans);
  if (!changed && seen.orphans.size() == state.orphans.size()) return std::nullopt;
  return seen;
}

bool conflicts_with_orphan(const model::State& state, const model::Node& node) {
  const bool is_placed = state.attempts.at(node.id.attempt).is_placed;
  return std::ranges::any_of(state.orphans, [&](const auto& entry) {
    const model::HostDevices& slice = entry.second.devices;
    return entry.first.id.attempt.run == node.id.attempt.run ||
           (is_placed && slice.host == node.host &&
            std::ranges::find_first_of(slice.devices, node.devices) != slice.devices.end());
  });
}

}  // namespace lockstep::controller
