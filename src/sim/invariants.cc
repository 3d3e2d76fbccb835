#include "sim/invariants.h"

#include <algorithm>
#include <set>
#include <vector>

#include "platform/core/sched/pass.h"
#include "platform/core/step/queue.h"

namespace lockstep::sim {
namespace {

bool is_active(RunState state) { return state == RunState::starting || state == RunState::running; }

bool holds(const Attempt& attempt) { return attempt.state != AttemptState::ended; }

std::vector<Holding> holdings(const State& state, const SchedulingPolicy& policy) {
  std::vector<Holding> held;
  for (const RunId& id : state.open)
    if (const Attempt* attempt = live_attempt(state, id))
      held.push_back(holding_of(state.runs.at(id), *attempt, nodes_of(state, attempt->id), policy));
  for (auto& [name, holding] : holdings_of(state.orphans)) held.push_back(std::move(holding));
  return held;
}

}  // namespace

void Invariants::check(const State& state, const State& durable) {
  if (state.runs != durable.runs || state.attempts != durable.attempts ||
      state.nodes != durable.nodes || state.open != durable.open ||
      state.requests != durable.requests || state.hosts != durable.hosts ||
      state.limits != durable.limits)
    scene_.violate("the store does not hold what the controller believes");
  const auto adopted = std::ranges::count_if(state.runs, [&](const auto& entry) {
    return entry.second.request_id.empty() && truth_.was_adopted(entry.first);
  });
  if (std::cmp_not_equal(std::ssize(state.requests) + adopted, state.runs.size()))
    scene_.violate("a run was made twice, though its user repeated himself under one id");
  std::map<Device, NodeId> held;
  std::map<RunId, int> live;
  for (const auto& [id, attempt] : state.attempts) {
    if (!holds(attempt)) continue;
    if (++live[id.run] > 1) scene_.violate(text(id.run) + " has two live attempts");
    check_gang(state, state.runs.at(id.run), attempt, held);
  }
  for (const auto& [id, seen] : seen_)
    if (!state.runs.contains(id)) scene_.violate(text(id) + " is forgotten");
  for (const auto& [id, run] : state.runs) {
    check_run(state, run);
    if (is_active(run.state) != live.contains(id))
      scene_.violate(
          format("{} is {} and has {} live attempts", text(id), text(run.state), live[id]));
  }
}

void Invariants::check_run(const State& state, const Run& run) {
  Seen& seen = seen_[run.id];
  if (run.epoch < seen.epoch || run.version < seen.version)
    scene_.violate(text(run.id) + " went back to an earlier epoch or version");
  if (run.losses > run.spec.rank_loss_retries || run.user_exits > run.spec.retries)
    scene_.violate(text(run.id) + " has used more retries than it has");
  if (is_final(run.state) != run.ended.has_value() ||
      is_final(run.state) == state.open.contains(run.id))
    scene_.violate(text(run.id) + " is half ended");
  if (!is_active(run.state) && run.reason.empty())
    scene_.violate(format("{} is {} without a reason", text(run.id), text(run.state)));
  seen = {run.epoch, run.version};
}

void Invariants::check_gang(const State& state, const Run& run, const Attempt& attempt,
                            std::map<Device, NodeId>& held) {
  if (attempt.id.epoch != run.epoch)
    scene_.violate(format("{} lives, but the run is at epoch {}", text(attempt.id), run.epoch));
  if ((attempt.state == AttemptState::draining) != (attempt.cause != Cause::none))
    scene_.violate(format("{} is {} with cause {}", text(attempt.id), text(attempt.state),
                          text(attempt.cause)));
  const auto nodes = nodes_of(state, attempt.id);
  std::set<std::string> hosts;
  for (const Node* node : nodes) {
    hosts.insert(node->host);
    if (std::ssize(node->devices) != devices_on_node(run.spec, node->id.index))
      scene_.violate(text(node->id) + " has not the devices that it needs");
    take(node->host, node->devices, node->id, held);
  }
  if (!attempt.moves_to.empty() && attempt.cause != Cause::moved)
    scene_.violate(text(attempt.id) + " does not move, and devices are kept for it elsewhere");
  for (const Slice& slice : attempt.moves_to)
    take(slice.host, slice.devices, {{run.id, run.epoch + 1}, 0}, held);
  if (std::ssize(nodes) != node_count(run.spec) || hosts.size() != nodes.size())
    scene_.violate(format("{} has {} nodes on {} hosts, its gang is {}", text(attempt.id),
                          nodes.size(), hosts.size(), node_count(run.spec)));
}

// By the node, or for it.
void Invariants::take(const std::string& host, const std::vector<int>& devices, const NodeId& node,
                      std::map<Device, NodeId>& held) {
  for (int device : devices)
    if (const auto [other, free] = held.emplace(Device{host, device}, node); !free)
      scene_.violate(format("device {} of {} is held by {} and {}", device, host,
                            text(other->second), text(node)));
}

void Invariants::check_queue(const State& state) {
  const Time now = scene_.clock.now();
  std::vector<Want> wants;
  for (const RunId& id : state.open) {
    const Run& run = state.runs.at(id);
    if (!waits_for_devices(run) || !orphans_of(state, id).empty()) continue;
    wants.push_back(want_of(run));
  }
  const Plan plan = pass(state.map, policy_, wants, holdings(state, policy_), now,
                         conditions_of(state.hosts, state.limits));
  for (const RunId& run : plan.evictions)
    scene_.violate(format("{} is to make room, and was not asked to", text(run)));
  for (const Move& move : plan.moves)
    scene_.violate(format("{} is to move, and was not asked to", text(move.run)));
  for (const Placement& placement : plan.placements)
    scene_.violate(format("{} waits although it fits: {}", text(placement.run),
                          state.runs.at(placement.run).reason));
}

}  // namespace lockstep::sim
