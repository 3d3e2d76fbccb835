#include "sim/checks/invariant_checker.h"

#include <algorithm>
#include <set>
#include <vector>

#include "platform/core/model/ended_runs.h"
#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/sched/pass.h"
#include "platform/core/step/starting/incremental_scheduler.h"

namespace lockstep::sim {
namespace {

bool is_active(model::RunState state) {
  return state == model::RunState::starting || state == model::RunState::running;
}

bool holds(const model::Attempt& attempt) { return attempt.state != model::AttemptState::ended; }

std::vector<const model::Node*> nodes_in_gang(const model::State& state,
                                              const model::AttemptId& attempt) {
  auto nodes = model::nodes_of(state, attempt);
  std::erase_if(nodes, [&](const model::Node* node) { return state.given_up.contains(node->id); });
  return nodes;
}

std::vector<sched::Allocation> holdings(const model::State& state,
                                        const sched::SchedulingPolicy& policy) {
  std::vector<sched::Allocation> held;
  for (const model::RunId& id : state.open)
    if (const model::Attempt* attempt = model::live_attempt(state, id))
      held.push_back(step::allocation_of(state.runs.at(id), *attempt,
                                         nodes_in_gang(state, attempt->id), policy));
  auto leftovers = step::orphan_allocations_of(state.orphans);
  leftovers.merge(step::given_up_allocations_of(state.given_up));
  for (auto& [name, allocation] : leftovers) {
    std::erase_if(allocation.devices, [&](const model::HostDevices& devices) {
      return model::engine_of(state, devices.host) == state.placing_engine;
    });
    held.push_back(std::move(allocation));
  }
  return held;
}

// The controller has all rows of some runs, among them all open ones.
bool has_same_runs(const model::State& state, const model::State& durable) {
  std::size_t attempts = 0, nodes = 0;
  for (const auto& [id, run] : state.runs) {
    if (!durable.runs.contains(id)) return false;
    const model::RunRows rows = model::rows_of(durable, id);
    if (model::rows_of(state, id) != rows) return false;
    if (!run.request_id.empty() && !state.requests.contains(run.request_id)) return false;
    attempts += rows.attempts.size();
    nodes += rows.nodes.size();
  }
  return attempts == state.attempts.size() && nodes == state.nodes.size();
}

}  // namespace

void InvariantChecker::check(const model::State& state, const model::State& durable) {
  if (!has_same_runs(state, durable) || state.open != durable.open ||
      state.hosts != durable.hosts || state.limits != durable.limits || state.map != durable.map)
    context_.report_violation("the store does not hold what the controller believes");
  const auto adopted = std::ranges::count_if(durable.runs, [&](const auto& entry) {
    return entry.second.request_id.empty() && truth_.was_adopted(entry.first);
  });
  if (std::cmp_not_equal(std::ssize(durable.requests) + adopted, durable.runs.size()))
    context_.report_violation(
        "a run was made twice, though its user repeated himself under one id");
  std::map<Device, model::NodeId> held;
  std::map<model::RunId, int> live;
  for (const auto& [id, attempt] : state.attempts) {
    if (!holds(attempt)) continue;
    if (++live[id.run] > 1) context_.report_violation(text(id.run) + " has two live attempts");
    check_gang(state, state.runs.at(id.run), attempt, held);
  }
  for (const auto& [id, seen] : last_versions_)
    if (!durable.runs.contains(id)) context_.report_violation(text(id) + " is forgotten");
  for (const auto& [id, run] : state.runs) {
    check_run(state, run);
    if (is_active(run.state) != live.contains(id))
      context_.report_violation(
          format("{} is {} and has {} live attempts", text(id), text(run.state), live[id]));
  }
}

void InvariantChecker::check_run(const model::State& state, const model::Run& run) {
  LastVersion& seen = last_versions_[run.id];
  if (run.epoch < seen.epoch || run.version < seen.version)
    context_.report_violation(text(run.id) + " went back to an earlier epoch or version");
  if (run.losses > run.spec.rank_loss_retries || run.user_exits > run.spec.retries)
    context_.report_violation(text(run.id) + " has used more retries than it has");
  if (model::is_final(run.state) != run.ended.has_value() ||
      model::is_final(run.state) == state.open.contains(run.id))
    context_.report_violation(text(run.id) + " is half ended");
  if (!is_active(run.state) && run.reason.empty())
    context_.report_violation(format("{} is {} without a reason", text(run.id), text(run.state)));
  seen = {run.epoch, run.version};
}

void InvariantChecker::check_gang(const model::State& state, const model::Run& run,
                                  const model::Attempt& attempt,
                                  std::map<Device, model::NodeId>& held) {
  if (attempt.id.epoch != run.epoch)
    context_.report_violation(
        format("{} lives, but the run is at epoch {}", text(attempt.id), run.epoch));
  if ((attempt.state == model::AttemptState::draining) != (attempt.cause != model::Cause::none))
    context_.report_violation(format("{} is {} with cause {}", text(attempt.id),
                                     text(attempt.state), text(attempt.cause)));
  const auto nodes = model::nodes_of(state, attempt.id);
  std::set<std::string> hosts;
  for (const model::Node* node : nodes) {
    hosts.insert(node->host.empty() ? text(node->id) : node->host);
    if (std::ssize(node->devices) != model::devices_on_node(run.spec, node->id.index))
      context_.report_violation(text(node->id) + " has not the devices that it needs");
    if (attempt.is_placed) record_allocation(node->host, node->devices, node->id, held);
  }
  if (!attempt.move_destination.empty() && attempt.cause != model::Cause::moved)
    context_.report_violation(text(attempt.id) +
                              " does not move, and devices are kept for it elsewhere");
  for (const model::HostDevices& slice : attempt.move_destination)
    record_allocation(slice.host, slice.devices, {{run.id, run.epoch + 1}, 0}, held);
  if (std::ssize(nodes) != model::node_count(run.spec) || hosts.size() != nodes.size())
    context_.report_violation(format("{} has {} nodes on {} hosts, its gang is {}",
                                     text(attempt.id), nodes.size(), hosts.size(),
                                     model::node_count(run.spec)));
}

// Records the devices of a node, or those reserved for it.
void InvariantChecker::record_allocation(const std::string& host, const std::vector<int>& devices,
                                         const model::NodeId& node,
                                         std::map<Device, model::NodeId>& held) {
  for (int device : devices)
    if (const auto [other, free] = held.emplace(Device{host, device}, node); !free)
      context_.report_violation(format("device {} of {} is held by {} and {}", device, host,
                                       text(other->second), text(node)));
}

void InvariantChecker::check_queue(const model::State& state) {
  const Time now = context_.clock.now();
  std::vector<sched::PendingRun> pending_runs;
  for (const model::RunId& id : state.open) {
    const model::Run& run = state.runs.at(id);
    if (!model::waits_for_devices(run) || !model::orphans_of(state, id).empty()) continue;
    pending_runs.push_back(step::pending_run_of(run));
  }
  model::HostsByPlacement hosts = model::hosts_by_placement(state, state.map);
  std::optional<sched::EngineHosts> engine;
  if (!state.placing_engine.empty())
    engine = {std::move(hosts.by_engine), state.settings.slurm_jobs_max};
  const sched::Plan plan = sched::schedule_once(
      hosts.by_lockstep, policy_, pending_runs, holdings(state, policy_), now,
      step::operator_settings_of(state.hosts, state.limits),
      state.hosts_make_map ? sched::MapGrowth::hosts_join : sched::MapGrowth::none, engine);
  for (const model::RunId& run : plan.evictions)
    context_.report_violation(format("{} is to make room, and was not asked to", text(run)));
  for (const sched::Move& move : plan.moves)
    context_.report_violation(format("{} is to move, and was not asked to", text(move.run)));
  for (const sched::Placement& placement : plan.placements)
    context_.report_violation(format("{} waits although it fits: {}", text(placement.run),
                                     state.runs.at(placement.run).reason));
}

}  // namespace lockstep::sim
