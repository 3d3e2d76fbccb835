#include "platform/server/queue_views.h"

#include <algorithm>
#include <map>

#include "map/query.h"
#include "platform/api/budget_messages.h"
#include "platform/core/step/budget/cost.h"

namespace lockstep::server {
namespace {

// A run that holds devices, and which.
struct RunAllocation {
  const model::Run* run = nullptr;
  const model::Attempt* attempt = nullptr;
  std::vector<const model::Node*> nodes;
};

// External runs hold no devices.
std::vector<RunAllocation> run_allocations(const model::State& state) {
  std::vector<RunAllocation> allocations;
  for (const model::RunId& id : state.open)
    if (const model::Attempt* attempt = model::live_attempt(state, id);
        attempt && attempt->engine != model::kExternalEngine)
      allocations.push_back({&state.runs.at(id), attempt, model::nodes_of(state, attempt->id)});
  return allocations;
}

// An engine that chooses the hosts has chosen none yet.
bool waits_in_engine(const RunAllocation& holds) {
  return !holds.attempt->is_placed && !holds.attempt->draining &&
         std::ranges::all_of(holds.nodes,
                             [](const model::Node* node) { return node->host.empty(); });
}

api::AllocationView holder_view(const RunAllocation& holds) {
  api::AllocationView view;
  view.run = text(holds.run->id);
  view.name = holds.run->spec.name;
  for (const model::Node* node : holds.nodes)
    if (!node->host.empty()) view.hosts.push_back(node->host);
  view.devices = holds.run->spec.devices;
  view.since = holds.attempt->created;
  view.expected_end =
      holds.attempt->draining.value_or(holds.attempt->created + model::time_left(*holds.run));
  if (holds.attempt->draining) view.leaves = holds.attempt->reason;
  return view;
}

// The view of an allocation of orphans or of given-up nodes.
api::AllocationView holder_view(const sched::Allocation& allocation) {
  api::AllocationView view;
  view.run = text(allocation.run);
  for (const model::HostDevices& host_devices : allocation.devices)
    view.hosts.push_back(host_devices.host);
  view.devices = static_cast<int>(allocation.devices.front().devices.size());
  view.since = allocation.started;
  view.expected_end = allocation.expected_end;
  return view;
}

api::WaitingView waiting_view(const model::Run& run) {
  return {.run = text(run.id),
          .name = run.spec.name,
          .user = run.origin.user,
          .run_class = run.spec.run_class,
          .priority = run.priority,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .timeout = model::time_left(run),
          .since = run.queued,
          .reason = run.reason,
          .blocker = std::nullopt,
          .expected_start = run.not_before,
          .reserved = false,
          .latest_start = std::nullopt,
          .held = run.held.has_value()};
}

api::WaitingView waiting_view(const model::Run& run, const sched::WaitingRun& waiting,
                              const sched::StartTimes& starts) {
  auto view = waiting_view(run);
  view.reason = waiting.reason;
  if (waiting.blocker) view.blocker = text(*waiting.blocker);
  view.expected_start = starts.expected;
  view.reserved = waiting.reserved;
  view.latest_start = starts.latest;
  return view;
}

// Queued runs that the scheduler does not have yet, by their arrival.
std::vector<const model::Run*> waiting_outside_queue(const model::State& state,
                                                     const step::IncrementalScheduler& scheduler) {
  std::set<model::RunId> in_order;
  for (const sched::WaitingRun& waiting : scheduler.waiting()) in_order.insert(waiting.run);
  std::vector<const model::Run*> others;
  for (const model::RunId& id : state.open)
    if (const model::Run& run = state.runs.at(id);
        run.state == model::RunState::queued && !in_order.contains(id))
      others.push_back(&run);
  std::ranges::stable_sort(others, {}, &model::Run::queued);
  return others;
}

std::vector<api::PlacementView> place_views(const std::vector<model::HostDevices>& devices) {
  std::vector<api::PlacementView> views;
  for (const model::HostDevices& host_devices : devices)
    views.push_back({host_devices.host, host_devices.devices});
  return views;
}

// A run that holds devices of a host, or has them reserved there.
struct RunDevices {
  model::RunId run;
  int devices = 0;
};
std::map<std::string, std::vector<RunDevices>> shares_by_host(const model::State& state) {
  std::map<std::string, std::vector<RunDevices>> shares;
  for (const RunAllocation& holds : run_allocations(state)) {
    for (const model::Node* node : holds.nodes)
      shares[node->host].push_back({holds.run->id, static_cast<int>(node->devices.size())});
    for (const model::HostDevices& host_devices : holds.attempt->move_destination)
      shares[host_devices.host].push_back(
          {holds.run->id, static_cast<int>(host_devices.devices.size())});
  }
  for (const auto& [name, orphan] : state.orphans)
    shares[orphan.devices.host].push_back({model::orphan_allocation_id(name.id.attempt.run),
                                           static_cast<int>(orphan.devices.devices.size())});
  for (const auto& [id, node] : state.given_up)
    shares[node.devices.host].push_back({model::given_up_allocation_id(id.attempt.run),
                                         static_cast<int>(node.devices.devices.size())});
  return shares;
}

std::string_view state_of(const std::vector<const model::Orphan*>& nodes) {
  const auto any = [&](auto is_so) { return std::ranges::any_of(nodes, is_so); };
  if (any([](const model::Orphan* node) { return node->stop_requested_at.has_value(); }))
    return "stopping";
  if (any([](const model::Orphan* node) { return !node->has_agent; })) return "lost";
  return any([](const model::Orphan* node) { return !node->ended; }) ? "running" : "ended";
}

// All nodes of one attempt.
api::OrphanView orphan_view(const model::AttemptName& name,
                            const std::vector<const model::Orphan*>& nodes) {
  api::OrphanView view;
  view.run = text(name.id.run);
  view.attempt = name.id.epoch;
  view.generation = name.generation;
  view.state = state_of(nodes);
  view.adoptable = true;
  for (const model::Orphan* node : nodes) {
    if (!node->devices.host.empty()) view.hosts.push_back(node->devices.host);
    view.devices += static_cast<int>(node->devices.devices.size());
    view.adoptable = view.adoptable && node->attempt_record && !node->stop_requested_at;
    if (!node->devices.host.empty())
      view.ends = std::max(view.ends.value_or(node->expected_end), node->expected_end);
    if (!node->attempt_record) continue;
    view.name = node->attempt_record->spec.name;
    view.user = node->attempt_record->origin.user;
    view.command = node->attempt_record->spec.command;
  }
  return view;
}

}  // namespace

api::QueueView queue_view(const model::State& state, const step::IncrementalScheduler& scheduler,
                          int limit, Time now) {
  api::QueueView view;
  view.time = now;
  for (const RunAllocation& holds : run_allocations(state)) {
    if (waits_in_engine(holds))
      view.waiting.push_back(waiting_view(*holds.run));
    else
      view.allocations.push_back(holder_view(holds));
  }
  const auto& waiting = scheduler.waiting();
  for (std::size_t i = 0; i < waiting.size(); ++i)
    view.waiting.push_back(
        waiting_view(state.runs.at(waiting[i].run), waiting[i], scheduler.start_times()[i]));
  for (const model::Run* run : waiting_outside_queue(state, scheduler))
    view.waiting.push_back(waiting_view(*run));
  for (const auto& [allocation_id, allocation] : step::orphan_allocations_of(state.orphans))
    view.allocations.push_back(holder_view(allocation));
  for (const auto& [allocation_id, allocation] : step::given_up_allocations_of(state.given_up)) {
    view.allocations.push_back(holder_view(allocation));
    view.allocations.back().leaves = "its host does not answer; its processes may still run";
  }
  std::ranges::stable_sort(view.allocations, {}, &api::AllocationView::expected_end);
  const auto cut = [&](auto& list) {
    const auto most = std::min(list.size(), static_cast<std::size_t>(limit));
    view.left_out += static_cast<std::int64_t>(list.size() - most);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
  };
  cut(view.waiting);
  cut(view.allocations);
  return view;
}

api::PlanView plan_view(const step::DryRunResult& result, const model::RunSpec& spec,
                        const model::State& state) {
  api::PlanView view;
  view.starts = !result.devices.empty();
  view.places = place_views(result.devices);
  for (const step::PreemptedRun& one : result.preempted)
    view.preempted.push_back({text(one.run), one.cause, one.from, place_views(one.destination)});
  view.reason = result.reason;
  if (result.blocker) view.blocker = text(*result.blocker);
  view.expected_start = result.starts.expected;
  view.latest_start = result.starts.latest;
  view.runs_ahead = static_cast<std::int64_t>(result.runs_ahead);
  // One of several engines may use them.
  const bool is_for_slurm = model::has_engine(state, model::kSlurmEngine);
  if (auto ignored =
          model::ignored_sections(spec, is_for_slurm ? model::kSlurmEngine : state.engine);
      !ignored.empty())
    view.ignored = std::move(ignored);
  view.cost_minutes = api::device_minutes(step::cost_at_limit(state, spec, result.devices));
  if (const auto budget = state.budgets.find(spec.project);
      budget != state.budgets.end() && budget->second.limited)
    view.available_minutes = api::device_minutes(budget->second.available);
  return view;
}

api::HostList host_list(const model::State& state) {
  auto there = shares_by_host(state);
  api::HostList list;
  for (const map::Pod& pod : state.map.pods) {
    for (const map::Host* host : map::hosts(pod)) {
      auto& view = list.hosts.emplace_back();
      view.id = host->id;
      view.pod = pod.name;
      view.labels = host->labels;
      view.engine = pod.engine.empty() ? state.engine : pod.engine;
      view.devices = view.free = static_cast<int>(map::device_count(*host));
      for (const RunDevices& share : there[host->id]) {
        view.free -= share.devices;
        view.runs.push_back(text(share.run));
      }
      const auto row = state.hosts.find(host->id);
      if (row == state.hosts.end()) continue;
      view.state = row->second.state;
      view.reason = row->second.reason;
      view.unavailable = model::why_unusable(row->second);
      if (row->second.since != Time()) view.since = row->second.since;
      view.events = row->second.audit;
    }
  }
  return list;
}

api::OrphanList orphan_list(const model::State& state) {
  std::map<model::AttemptName, std::vector<const model::Orphan*>> attempts;
  for (const auto& [name, orphan] : state.orphans) attempts[name.attempt()].push_back(&orphan);
  api::OrphanList list;
  for (const auto& [name, nodes] : attempts) list.orphans.push_back(orphan_view(name, nodes));
  std::ranges::stable_sort(list.orphans, {}, &api::OrphanView::run);
  return list;
}

std::string idle_stop_text(const model::LimitRow& limit) {
  if (!limit.idle_stop) return "";
  return *limit.idle_stop == Duration(0) ? "off" : text(*limit.idle_stop);
}

api::LimitList limit_list(const model::State& state) {
  std::map<model::LimitId, int> held;
  for (const RunAllocation& holds : run_allocations(state)) {
    const int devices = model::rank_count(holds.run->spec);
    held[{model::LimitScope::project, holds.run->id.project}] += devices;
    held[{model::LimitScope::user, holds.run->origin.user}] += devices;
  }
  api::LimitList list;
  for (const auto& [id, limit] : state.limits)
    if (limit.devices || limit.weight != 1 || limit.idle_stop)
      list.limits.push_back(
          {id.scope, id.name, limit.devices, held[id], limit.weight, idle_stop_text(limit)});
  return list;
}

}  // namespace lockstep::server
