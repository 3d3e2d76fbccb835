#include "sim/checks/scheduling_oracle.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/model/hosts_by_placement.h"

namespace lockstep::sim {
namespace {

using sched::Allocation;
using sched::is_at_engine;
using sched::NaiveQueue;
using sched::PendingRun;
using sched::QueueState;

// --- Rows as the input of the rules ---

PendingRun pending_run_of(const model::Run& run) {
  return {.run = run.id,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .remainder = run.spec.remainder,
          .arrived = run.queued,
          .time_limit = time_left(run),
          .time_used = run.time_used,
          .priority = run.priority,
          .run_class = run.spec.run_class,
          .user = run.origin.user,
          .fair_share_used = run.fair_share_used};
}

using GivenUpNodes = std::map<model::NodeId, model::GivenUpNode>;

// A node that is given up holds its devices apart from the gang.
Allocation allocation_of(const CommitView& rows, const GivenUpNodes& given_up,
                         const model::Run& run, const model::Attempt& attempt) {
  Allocation allocation{.run = run.id,
                        .devices = {},
                        .expected_end = attempt.draining.value_or(attempt.created + time_left(run)),
                        .run_class = run.spec.run_class,
                        .user = run.origin.user,
                        .leaving = attempt.draining.has_value(),
                        .move_destination = attempt.move_destination,
                        .time_limit = time_left(run)};
  for (int index = 0; index < model::node_count(run.spec); ++index)
    if (const model::Node* node = rows.find(model::NodeId{attempt.id, index});
        node && !given_up.contains(node->id))
      allocation.devices.push_back({attempt.is_placed ? node->host : "", node->devices});
  return allocation;
}

// True if these are the hosts that were reserved for the move of the attempt before.
bool starts_at_move_destination(const model::State& durable, const model::AttemptId& former_id,
                                const Allocation& started) {
  const auto found = durable.attempts.find(former_id);
  if (found == durable.attempts.end()) return false;
  const model::Attempt& former = found->second;
  return former.state != model::AttemptState::ended && former.cause == model::Cause::moved &&
         !started.devices.empty() &&
         std::ranges::equal(former.move_destination, started.devices, {}, &model::HostDevices::host,
                            &model::HostDevices::host);
}

bool has_orphans(const std::map<model::NodeName, model::Orphan>& orphans, const model::RunId& run) {
  return std::ranges::any_of(orphans,
                             [&](const auto& entry) { return entry.first.id.attempt.run == run; });
}

void add_run(const CommitView& rows, const model::State& durable, const GivenUpNodes& given_up,
             const model::Run& run, bool has_orphan, QueueSnapshot& snapshot) {
  const model::AttemptId newest{run.id, run.epoch};
  const model::Attempt* attempt = rows.find(newest);
  if (!attempt || attempt->state == model::AttemptState::ended) {
    if (!has_orphan && model::waits_for_devices(run))
      snapshot.before.waiting.push_back(pending_run_of(run));
    return;
  }
  Allocation allocation = allocation_of(rows, given_up, run, *attempt);
  const bool adopted = attempt->generation != durable.store.generation;
  if (durable.attempts.contains(newest) || adopted ||
      starts_at_move_destination(durable, {run.id, newest.epoch - 1}, allocation)) {
    snapshot.before.allocations.push_back(std::move(allocation));
    return;
  }
  snapshot.before.waiting.push_back(pending_run_of(run));
  snapshot.starts.push_back(std::move(allocation));
}

bool is_held(const std::vector<Allocation>& allocations, const std::string& host, int device) {
  return std::ranges::any_of(allocations, [&](const Allocation& one) {
    return std::ranges::any_of(one.devices, [&](const model::HostDevices& slice) {
      return slice.host == host && std::ranges::count(slice.devices, device) > 0;
    });
  });
}

// The orphans of a run, or its nodes that were given up, end with the last of them.
void add_leftover(std::map<model::RunId, Allocation>& leftovers, const model::RunId& id,
                  const model::HostDevices& devices, Time end) {
  Allocation& allocation = leftovers[id];
  allocation.run = id;
  allocation.devices.push_back(devices);
  allocation.expected_end = std::max(allocation.expected_end, end);
}

// Orphans, and nodes that were given up. A device that several hold counts once: for the run, else
// for the first of them.
std::vector<Allocation> leftover_allocations(
    const std::map<model::NodeName, model::Orphan>& orphans, const GivenUpNodes& given_up,
    const QueueSnapshot& snapshot) {
  std::map<model::RunId, Allocation> found;
  for (const auto& [name, orphan] : orphans)
    if (!orphan.devices.host.empty())  // else it is a job of another store
      add_leftover(found, model::orphan_allocation_id(name.id.attempt.run), orphan.devices,
                   orphan.expected_end);
  for (const auto& [id, node] : given_up)
    add_leftover(found, model::given_up_allocation_id(id.attempt.run), node.devices,
                 node.last_call + node.gone_after.value_or(Duration(0)));
  std::vector<Allocation> all;
  for (auto& [id, allocation] : found) {
    for (model::HostDevices& slice : allocation.devices)
      std::erase_if(slice.devices, [&](int device) {
        return is_held(snapshot.before.allocations, slice.host, device) ||
               is_held(snapshot.starts, slice.host, device) || is_held(all, slice.host, device);
      });
    all.push_back(std::move(allocation));
  }
  return all;
}

// A host may have left the map, or have fewer devices after it joined again, while the end of a
// gang that had devices there is not complete.
void drop_missing_devices(const map::ClusterMap& map, Allocation& allocation) {
  const auto drop = [&](std::vector<model::HostDevices>& slices) {
    std::erase_if(slices, [&](model::HostDevices& slice) {
      if (slice.host.empty()) return false;  // at an engine
      const map::Host* const host = map::find_host(map, slice.host);
      std::erase_if(slice.devices, [&](int index) {
        return !host || std::cmp_greater_equal(index, map::device_count(*host));
      });
      return !host;
    });
  };
  drop(allocation.devices);
  drop(allocation.move_destination);
}

// --- Comparisons of two snapshots ---

const Allocation* find_allocation(const QueueState& state, const model::RunId& run) {
  const auto found = std::ranges::find(state.allocations, run, &Allocation::run);
  return found == state.allocations.end() ? nullptr : &*found;
}

// True if it begins to move off a drained host, to any free devices.
bool begins_to_leave_drained_host(const QueueState& before, const QueueState& after,
                                  const Allocation& allocation) {
  if (!allocation.leaving || allocation.move_destination.empty()) return false;
  if (sched::host_state(after.settings, allocation.devices.front().host) !=
      model::HostState::drained)
    return false;
  const Allocation* former = find_allocation(before, allocation.run);
  return !former || !former->leaving;
}

bool closes_host(const QueueState& before, const QueueState& after) {
  return std::ranges::any_of(after.settings.hosts, [&](const sched::HostStatus& one) {
    return sched::refuses_runs(one.state) &&
           !sched::refuses_runs(sched::host_state(before.settings, one.host));
  });
}

const PendingRun& find_waiting(const QueueState& state, const model::RunId& run) {
  return *std::ranges::find(state.waiting, run, &PendingRun::run);
}

}  // namespace

QueueSnapshot queue_snapshot_of(const model::State& durable, const Commit& commit) {
  const CommitView rows(durable, commit);
  QueueSnapshot snapshot;
  model::HostsByPlacement hosts = model::hosts_by_placement(durable, map_after(durable, commit));
  snapshot.map = std::move(hosts.by_lockstep);
  snapshot.engine_map = std::move(hosts.by_engine);
  for (const auto& [host, state] : rows.hosts())
    snapshot.before.settings.hosts.push_back({host, state});
  sched::Limits& limits = snapshot.before.settings.limits;
  for (const auto& [limit, devices] : rows.limits())
    (limit.scope == model::LimitScope::project ? limits.project_devices
                                               : limits.user_devices)[limit.name] = devices;
  const auto orphans = rows.orphans();
  const auto given_up = rows.given_up();
  for (const model::RunId& id : rows.open())
    add_run(rows, durable, given_up, *rows.find(id), has_orphans(orphans, id), snapshot);
  snapshot.orphans = leftover_allocations(orphans, given_up, snapshot);
  auto& allocations = snapshot.before.allocations;
  allocations.insert(allocations.end(), snapshot.orphans.begin(), snapshot.orphans.end());
  for (Allocation& allocation : allocations) drop_missing_devices(snapshot.map, allocation);
  return snapshot;
}

std::vector<model::RunId> SchedulingOracle::order(const QueueSnapshot& snapshot) const {
  return queue_.order(snapshot.before);
}

std::optional<SchedulingOracle::Head> SchedulingOracle::head(const QueueSnapshot& snapshot) const {
  const QueueState& state = snapshot.before;
  NaiveQueue::RunIds starting;
  for (const Allocation& start : snapshot.starts) starting.insert(start.run);
  const PendingRun* first = queue_.head(state, queue_.keys(state), starting);
  if (!first) return std::nullopt;
  return Head{first->run, queue_.earliest_start(state, *first).value_or(Time::max())};
}

// --- Runs that start ---

std::optional<std::string> SchedulingOracle::check_starts(const QueueSnapshot& snapshot) const {
  if (snapshot.starts.empty()) return std::nullopt;
  QueueState after = snapshot.before;
  for (const Allocation& start : snapshot.starts) after = with_started(std::move(after), start);
  for (const Allocation& start : snapshot.starts) {
    const PendingRun& run = find_waiting(snapshot.before, start.run);
    if (auto wrong = check_placement(after, run, start)) return wrong;
    if (const auto limit = NaiveQueue::exceeded_limit(after, run))
      return format("{} starts, and the {} holds more than it may", text(run.run), *limit);
  }
  FailedOrders failed_orders;
  return check_start_order(snapshot.before, snapshot.starts, failed_orders);
}

// The hosts must accept runs and lie in one pod. Avoided hosts are allowed only if the gang fits
// nowhere else.
std::optional<std::string> SchedulingOracle::check_placement(const QueueState& after,
                                                             const PendingRun& run,
                                                             const Allocation& started) const {
  const sched::ClusterCapacity& capacity = queue_.capacity();
  std::set<int> pods;
  const std::string* avoided = nullptr;
  for (const model::HostDevices& slice : started.devices) {
    if (const auto host = capacity.find(slice.host)) pods.insert(capacity.pod_of(*host));
    const model::HostState state = sched::host_state(after.settings, slice.host);
    if (sched::refuses_runs(state))
      return format("{} starts on {}, which is {}", text(run.run), slice.host, text(state));
    if (state == model::HostState::avoided) avoided = &slice.host;
  }
  if (pods.size() > 1 && capacity.stays_in_one_pod(run))
    return format("{} starts over several pods, and one of them is large enough", text(run.run));
  if (!avoided) return std::nullopt;
  QueueState others = after;
  std::erase_if(others.allocations, [&](const Allocation& one) { return one.run == run.run; });
  for (sched::HostStatus& one : others.settings.hosts) one.state = model::HostState::closed;
  if (!capacity.fits(run, queue_.free_devices(others))) return std::nullopt;
  return format("{} starts on {}, which is avoided, though others have room", text(run.run),
                *avoided);
}

// A job takes no devices from the head. But the engine alone knows when it ends, so it leaves the
// head the devices that the head may hold.
std::optional<std::string> SchedulingOracle::find_conflict(const QueueState& state,
                                                           const NaiveQueue::Keys& keys,
                                                           const NaiveQueue::RunIds& starting,
                                                           const Allocation& start) const {
  if (!is_at_engine(start)) {
    const auto conflict = queue_.conflict(state, keys, starting, start);
    if (!conflict) return std::nullopt;
    const bool fits = conflict->violation == NaiveQueue::Violation::head_fits;
    return format("{} starts before {}, {}", text(start.run), text(conflict->head->run),
                  fits ? "which stands ahead of it and would fit" : "which it delays");
  }
  const PendingRun* first = queue_.head(state, keys, starting);
  if (!first || keys.at(start.run) < keys.at(first->run) ||
      !NaiveQueue::exceeded_limit(with_started(state, start), *first))
    return std::nullopt;
  return format("{} becomes a job before {}, whose limit it uses up", text(start.run),
                text(first->run));
}

// A run behind others of its project moves up once those have started, and each debug run fills the
// debug share, also as a job. So the order of the checks matters. Any valid order suffices, because
// the pass visits the queue several times. Returns the violation of the first start, if no order is
// valid.
std::optional<std::string> SchedulingOracle::check_start_order(
    const QueueState& state, const std::vector<Allocation>& starts,
    FailedOrders& failed_orders) const {
  NaiveQueue::RunIds left;
  for (const Allocation& start : starts) left.insert(start.run);
  if (const auto known = failed_orders.find(left); known != failed_orders.end())
    return known->second;
  const NaiveQueue::Keys keys = queue_.keys(state);
  std::vector<Allocation> ordered = starts;
  std::ranges::sort(ordered, {}, [&](const Allocation& one) { return keys.at(one.run); });
  std::optional<std::string> first_wrong;
  for (const Allocation& start : ordered) {
    std::optional<std::string> wrong = find_conflict(state, keys, left, start);
    if (!wrong) {
      std::vector<Allocation> others = starts;
      std::erase(others, start);
      wrong = check_start_order(with_started(state, start), others, failed_orders);
    }
    if (!wrong) return std::nullopt;
    if (!first_wrong) first_wrong = std::move(wrong);
  }
  if (first_wrong) failed_orders.emplace(std::move(left), *first_wrong);
  return first_wrong;
}

// --- Runs that wait ---

// Compares the heads before any run starts, because each start is checked separately. An overdue
// start may happen at any moment. The devices of orphans become known when the engine is queried.
std::optional<std::string> SchedulingOracle::check_head_not_delayed(const QueueSnapshot& before,
                                                                    const QueueSnapshot& after,
                                                                    Time now) const {
  if (before.orphans != after.orphans || before.map != after.map) return std::nullopt;
  const auto was = head(before), is = head(after);
  if (!was || !is || was->run != is->run || is->start <= std::max(was->start, now))
    return std::nullopt;
  for (const Allocation& one : after.before.allocations) {
    if (begins_to_leave_drained_host(before.before, after.before, one)) return std::nullopt;
    const Allocation* former = find_allocation(before.before, one.run);
    if (former && former->expected_end <= now && former->expected_end < one.expected_end)
      return std::nullopt;
    if (former && former->time_limit < one.time_limit) return std::nullopt;  // it was extended
  }
  if (closes_host(before.before, after.before)) return std::nullopt;
  return format("{} was to start at {} and now at {}, and no run ahead of it came", text(is->run),
                text(was->start), text(is->start));
}

std::optional<std::string> SchedulingOracle::check_no_run_idle(const QueueSnapshot& snapshot,
                                                               Time now) const {
  const QueueState& state = snapshot.before;
  const NaiveQueue::Keys keys = queue_.keys(state);
  for (const PendingRun& run : state.waiting) {
    const auto bound = queue_.latest_permitted_end(state, keys, run);
    if (!bound) continue;
    if (*bound == Time::max()) return format("{} is the first that waits, and fits", text(run.run));
    if (now + run.time_limit <= *bound)
      return format("{} waits, though it fits and ends before {}, when those ahead of it can start",
                    text(run.run), text(*bound));
  }
  return std::nullopt;
}

}  // namespace lockstep::sim
