#include "platform/server/queue_views.h"

#include <algorithm>
#include <map>

#include "map/query.h"

namespace lockstep {
namespace {

// A run that holds devices, and where.
struct Holds {
  const Run* run = nullptr;
  const Attempt* attempt = nullptr;
  std::vector<const Node*> nodes;
};

std::vector<Holds> who_holds(const State& state) {
  std::vector<Holds> holders;
  for (const RunId& id : state.open)
    if (const Attempt* attempt = live_attempt(state, id))
      holders.push_back({&state.runs.at(id), attempt, nodes_of(state, attempt->id)});
  return holders;
}

Duration left_of(const Run& run) { return run.spec.timeout - run.charged; }

api::HolderView holder_view(const Holds& holds) {
  api::HolderView view;
  view.run = text(holds.run->id);
  view.name = holds.run->spec.name;
  for (const Node* node : holds.nodes) view.hosts.push_back(node->host);
  view.devices = holds.run->spec.devices;
  view.since = holds.attempt->created;
  view.expected_end =
      holds.attempt->draining.value_or(holds.attempt->created + left_of(*holds.run));
  if (holds.attempt->draining) view.leaves = holds.attempt->reason;
  return view;
}

// Of an orphan.
api::HolderView holder_view(const Holding& holding) {
  api::HolderView view;
  view.run = text(holding.run);
  for (const Slice& slice : holding.slices) view.hosts.push_back(slice.host);
  view.devices = static_cast<int>(holding.slices.front().devices.size());
  view.since = holding.started;
  view.expected_end = holding.expected_end;
  return view;
}

api::WaitingView waiting_view(const Run& run) {
  return {.run = text(run.id),
          .name = run.spec.name,
          .user = run.origin.user,
          .run_class = run.spec.run_class,
          .priority = run.priority,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .timeout = left_of(run),
          .since = run.queued,
          .reason = run.reason,
          .blocker = std::nullopt,
          .expected_start = run.not_before,
          .latest_start = std::nullopt,
          .held = run.held.has_value()};
}

api::WaitingView waiting_view(const Run& run, const WaitingRun& waiting, const StartTimes& starts) {
  auto view = waiting_view(run);
  if (waiting.blocker) view.blocker = text(*waiting.blocker);
  view.expected_start = starts.expected;
  view.latest_start = starts.latest;
  return view;
}

// Those that the pass does not decide about yet, by when they came.
std::vector<const Run*> kept_back(const State& state, const Queue& queue) {
  std::set<RunId> in_order;
  for (const WaitingRun& waiting : queue.waiting()) in_order.insert(waiting.run);
  std::vector<const Run*> others;
  for (const RunId& id : state.open)
    if (const Run& run = state.runs.at(id); run.state == RunState::queued && !in_order.contains(id))
      others.push_back(&run);
  std::ranges::stable_sort(others, {}, &Run::queued);
  return others;
}

std::vector<api::PlaceView> place_views(const std::vector<Slice>& slices) {
  std::vector<api::PlaceView> views;
  for (const Slice& slice : slices) views.push_back({slice.host, slice.devices});
  return views;
}

// Who holds devices of a host, or has them kept there.
struct Share {
  RunId run;
  int devices = 0;
};
std::map<std::string, std::vector<Share>> shares_by_host(const State& state) {
  std::map<std::string, std::vector<Share>> shares;
  for (const Holds& holds : who_holds(state)) {
    for (const Node* node : holds.nodes)
      shares[node->host].push_back({holds.run->id, static_cast<int>(node->devices.size())});
    for (const Slice& slice : holds.attempt->moves_to)
      shares[slice.host].push_back({holds.run->id, static_cast<int>(slice.devices.size())});
  }
  for (const auto& [name, orphan] : state.orphans)
    shares[orphan.slice.host].push_back(
        {holder_of_orphan(name.id.attempt.run), static_cast<int>(orphan.slice.devices.size())});
  return shares;
}

std::string_view state_of(const std::vector<const Orphan*>& nodes) {
  const auto any = [&](auto is_so) { return std::ranges::any_of(nodes, is_so); };
  if (any([](const Orphan* node) { return node->stopping.has_value(); })) return "stopping";
  if (any([](const Orphan* node) { return !node->has_agent; })) return "lost";
  return any([](const Orphan* node) { return !node->ended; }) ? "running" : "ended";
}

// All nodes of one attempt.
api::OrphanView orphan_view(const AttemptName& name, const std::vector<const Orphan*>& nodes) {
  api::OrphanView view;
  view.run = text(name.id.run);
  view.attempt = name.id.epoch;
  view.generation = name.generation;
  view.state = state_of(nodes);
  view.adoptable = true;
  for (const Orphan* node : nodes) {
    if (!node->slice.host.empty()) view.hosts.push_back(node->slice.host);
    view.devices += static_cast<int>(node->slice.devices.size());
    view.adoptable = view.adoptable && node->made && !node->stopping;
    if (!node->slice.host.empty()) view.ends = std::max(view.ends.value_or(node->ends), node->ends);
    if (!node->made) continue;
    view.name = node->made->spec.name;
    view.user = node->made->origin.user;
    view.command = node->made->spec.command;
  }
  return view;
}

}  // namespace

api::QueueView queue_view(const State& state, const Queue& queue, int limit, Time now) {
  api::QueueView view;
  view.time = now;
  const auto& waiting = queue.waiting();
  for (std::size_t i = 0; i < waiting.size(); ++i)
    view.waiting.push_back(
        waiting_view(state.runs.at(waiting[i].run), waiting[i], queue.start_times()[i]));
  for (const Run* run : kept_back(state, queue)) view.waiting.push_back(waiting_view(*run));
  for (const Holds& holds : who_holds(state)) view.holding.push_back(holder_view(holds));
  for (const auto& [holder, holding] : holdings_of(state.orphans))
    view.holding.push_back(holder_view(holding));
  std::ranges::stable_sort(view.holding, {}, &api::HolderView::expected_end);
  const auto cut = [&](auto& list) {
    const auto most = std::min(list.size(), static_cast<std::size_t>(limit));
    view.left_out += static_cast<std::int64_t>(list.size() - most);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
  };
  cut(view.waiting);
  cut(view.holding);
  return view;
}

api::PlanView plan_view(const Prospect& prospect) {
  api::PlanView view;
  view.starts = !prospect.slices.empty();
  view.places = place_views(prospect.slices);
  for (const Displaced& one : prospect.displaced)
    view.displaced.push_back({text(one.run), one.cause, one.from, place_views(one.to)});
  view.reason = prospect.reason;
  if (prospect.blocker) view.blocker = text(*prospect.blocker);
  view.expected_start = prospect.starts.expected;
  view.latest_start = prospect.starts.latest;
  view.ahead = static_cast<std::int64_t>(prospect.ahead);
  return view;
}

api::HostList host_list(const State& state) {
  auto there = shares_by_host(state);
  api::HostList list;
  for (const Pod& pod : state.map.pods) {
    for (const Host* host : hosts(pod)) {
      auto& view = list.hosts.emplace_back();
      view.id = host->id;
      view.pod = pod.name;
      view.devices = view.free = static_cast<int>(device_count(*host));
      for (const Share& share : there[host->id]) {
        view.free -= share.devices;
        view.runs.push_back(text(share.run));
      }
      const auto row = state.hosts.find(host->id);
      if (row == state.hosts.end()) continue;
      view.state = row->second.state;
      view.reason = row->second.reason;
      view.since = row->second.since;
      view.events = row->second.audit;
    }
  }
  return list;
}

api::OrphanList orphan_list(const State& state) {
  std::map<AttemptName, std::vector<const Orphan*>> attempts;
  for (const auto& [name, orphan] : state.orphans) attempts[name.attempt()].push_back(&orphan);
  api::OrphanList list;
  for (const auto& [name, nodes] : attempts) list.orphans.push_back(orphan_view(name, nodes));
  std::ranges::stable_sort(list.orphans, {}, &api::OrphanView::run);
  return list;
}

api::LimitList limit_list(const State& state) {
  std::map<LimitId, int> held;
  for (const Holds& holds : who_holds(state)) {
    const int devices = rank_count(holds.run->spec);
    held[{LimitScope::project, holds.run->id.project}] += devices;
    held[{LimitScope::user, holds.run->origin.user}] += devices;
  }
  api::LimitList list;
  for (const auto& [id, limit] : state.limits)
    if (limit.devices || limit.weight != 1)
      list.limits.push_back({id.scope, id.name, limit.devices, held[id], limit.weight});
  return list;
}

}  // namespace lockstep
