#include "platform/core/step/ending/given_up.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/reason_text.h"

namespace lockstep::step {
namespace {

void add_give_up_event(Draft& draft, const std::vector<model::NodeId>& nodes) {
  const model::Node& first = *draft.nodes.find(nodes.front());
  const std::size_t more = nodes.size() - 1;
  const std::string others = more == 0 ? "" : format(" and {} more", more);
  model::add_audit_entry(
      draft.runs.edit(first.id.attempt.run).audit,
      {.time = draft.now(),
       .by = "",
       .what = format("attempt {} ended without {}{}: the host does not answer, and its devices "
                      "stay held until it does",
                      first.id.attempt.epoch, describe_location(first), others)});
}

void kill_given_up_node(Draft& draft, const model::GivenUpNode& node) {
  const auto& killed = node.kill_requested_at;
  if (killed && draft.now() - *killed < draft.settings().kill_interval) return;
  draft.given_up.edit(node.id).kill_requested_at = draft.now();
  draft.add_effect(model::KillNode{node.id});
}

// All devices of the host. It may have joined again, or report other devices, since the node was
// placed; the node's row names those of before, by index.
model::HostDevices all_devices(const Draft& draft, const model::Node& node) {
  if (!draft.attempts.find(node.id.attempt)->is_placed) return {node.host, {}};
  const map::Host* const host = map::find_host(draft.map(), node.host);
  if (!host) return {node.host, node.devices};
  std::vector<int> devices(map::device_count(*host));
  std::iota(devices.begin(), devices.end(), 0);
  return {node.host, std::move(devices)};
}

}  // namespace

void give_up_stuck_nodes(Draft& draft, const model::AttemptId& attempt,
                         const std::vector<model::NodeId>& stuck,
                         const std::set<std::string>& silent_hosts) {
  const auto is_left = [](const model::Node* node) {
    return node->state != model::NodeState::released;
  };
  const auto is_silent = [&](const model::NodeId& id) {
    return silent_hosts.contains(draft.nodes.find(id)->host);
  };
  if (stuck.empty() || std::ranges::count_if(draft.nodes_of(attempt), is_left) != std::ssize(stuck))
    return;
  if (!std::ranges::all_of(stuck, is_silent)) return;
  add_give_up_event(draft, stuck);
  for (const model::NodeId& id : stuck) give_up_node(draft, id);
}

void check_given_up_nodes(Draft& draft, const std::set<std::string>& silent_hosts) {
  for (const model::GivenUpNode* node : draft.given_up.current()) {
    if (node->gone) continue;
    if (!silent_hosts.contains(node->devices.host))
      kill_given_up_node(draft, *node);
    else if (node->gone_after && draft.now() - node->last_call >= *node->gone_after)
      free_given_up_node(draft, node->id);
  }
}

void free_given_up_node(Draft& draft, const model::NodeId& node) {
  draft.given_up.edit(node).gone = true;
}

void take_back_node(Draft& draft, const model::NodeId& id) {
  const model::GivenUpNode* known = draft.given_up.find(id);
  const model::Node* node = draft.nodes.find(id);
  if (!node || (known && !known->gone)) return;
  const model::Attempt& attempt = *draft.attempts.find(id.attempt);
  draft.given_up.edit_or_add(id) = {.id = id,
                                    .generation = attempt.generation,
                                    .engine = attempt.engine,
                                    .devices = all_devices(draft, *node),
                                    .since = draft.now(),
                                    .last_call = draft.now(),
                                    .gone_after = time_until_gone(draft, id.attempt)};
}

const model::GivenUpNode* find_given_up_node(const Draft& draft, const std::string& host) {
  for (const model::GivenUpNode* node : draft.given_up.current())
    if (!node->gone && node->devices.host == host) return node;
  return nullptr;
}

}  // namespace lockstep::step
