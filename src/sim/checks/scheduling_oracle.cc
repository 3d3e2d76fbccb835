#include "sim/checks/scheduling_oracle.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/format.h"

namespace lockstep::sim {
namespace {

constexpr Duration kMoment(1);

// A run can be overtaken by runs that were submitted up to 20 time-outs later, more or fewer by the
// project's fair share (docs/design/scheduler.md).
constexpr int kAging = 20;
// Percent of all devices that debug runs may use ahead of all other runs.
constexpr int kDebugSharePercent = 10;
constexpr int kDebugShare = 0, kOrdinary = 1, kPreemptible = 2;

Time key_of(const model::Run& run) {
  return run.queued + kAging * run.spec.timeout * run.fair_share_used / 100;
}

bool is_debug(const model::Run& run) { return run.spec.run_class == model::RunClass::debug; }

bool is_preemptible(const model::Run& run) {
  return run.spec.run_class == model::RunClass::preemptible;
}

bool refuses_runs(model::HostState state) {
  return state == model::HostState::closed || state == model::HostState::drained;
}

Duration time_left(const model::Run& run) { return run.spec.timeout - run.time_used; }

Time end_of(const RunEntry& entry) {
  return entry.attempt->draining.value_or(entry.attempt->created + time_left(*entry.run));
}

// It starts in this commit, and its turn in the check has not come.
bool is_about_to_start(const RunEntry& entry) { return entry.starts && !entry.attempt; }

bool is_in_queue(const RunEntry& entry) {
  return is_about_to_start(entry) || model::waits_for_devices(*entry.run);
}

bool has_draining_attempt(const RunEntry& entry) {
  return entry.attempt && entry.attempt->draining;
}

// True if the nodes are those that were reserved for its move.
bool starts_at_move_target(const model::State& durable, const model::AttemptId& id,
                           const std::vector<const model::Node*>& nodes) {
  const auto found = durable.attempts.find(id);
  if (found == durable.attempts.end()) return false;
  const model::Attempt& former = found->second;
  return former.state != model::AttemptState::ended && former.cause == model::Cause::moved &&
         !nodes.empty() &&
         std::ranges::equal(former.move_destination, nodes, {}, &model::HostDevices::host,
                            &model::Node::host);
}

RunEntry run_entry_of(const CommitView& rows, const model::State& durable, const model::RunId& id) {
  RunEntry entry{rows.find(id)};
  const model::AttemptId newest{id, entry.run->epoch};
  const model::Attempt* attempt = rows.find(newest);
  if (!attempt || attempt->state == model::AttemptState::ended) return entry;
  entry.attempt = attempt;
  const bool adopted = attempt->generation != durable.store.generation;
  entry.starts = !durable.attempts.contains(newest) && !adopted;
  for (int index = 0; index < model::node_count(entry.run->spec); ++index)
    if (const model::Node* node = rows.find(model::NodeId{newest, index}))
      entry.nodes.push_back(node);
  entry.moves = entry.starts && starts_at_move_target(durable, {id, newest.epoch - 1}, entry.nodes);
  return entry;
}

// True if the limit concerns the run.
bool limit_applies_to(const model::LimitId& limit, const model::Run& run) {
  return limit.name ==
         (limit.scope == model::LimitScope::project ? run.spec.project : run.origin.user);
}

// The first limit that the run would exceed if it held devices beside these runs, or exceeds as one
// of them.
const model::LimitId* exceeded_limit(const QueueSnapshot& snapshot,
                                     const std::vector<const RunEntry*>& allocated,
                                     const model::Run& run) {
  for (const auto& [limit, most] : snapshot.limits) {
    if (!limit_applies_to(limit, run)) continue;
    int held = model::rank_count(run.spec);
    for (const RunEntry* entry : allocated)
      if (entry->run != &run && limit_applies_to(limit, *entry->run))
        held += model::rank_count(entry->run->spec);
    if (held > most) return &limit;
  }
  return nullptr;
}

// The snapshot without the runs that start, except those whose devices were reserved for a move.
QueueSnapshot before_starts(QueueSnapshot snapshot) {
  for (RunEntry& entry : snapshot.entries) {
    if (!entry.starts || entry.moves) continue;
    entry.attempt = nullptr;
    entry.nodes.clear();
  }
  return snapshot;
}

// In this commit it begins to move off a drained host, to any free devices.
bool is_moved_off_drained_host(const QueueSnapshot& before, const QueueSnapshot& after,
                               const RunEntry& entry) {
  if (!has_draining_attempt(entry) || entry.attempt->cause != model::Cause::moved) return false;
  const auto host = after.hosts.find(entry.nodes.front()->host);
  if (host == after.hosts.end() || host->second != model::HostState::drained) return false;
  return std::ranges::none_of(before.entries, [&](const RunEntry& former) {
    return former.run->id == entry.run->id && has_draining_attempt(former);
  });
}

std::vector<const RunEntry*> allocated_entries(const QueueSnapshot& snapshot) {
  std::vector<const RunEntry*> allocated;
  for (const RunEntry& entry : snapshot.entries)
    if (entry.attempt) allocated.push_back(&entry);
  return allocated;
}

bool has_orphans(const std::map<model::NodeName, model::Orphan>& orphans, const model::RunId& run) {
  return std::ranges::any_of(orphans,
                             [&](const auto& entry) { return entry.first.id.attempt.run == run; });
}

bool is_held(const std::vector<RunEntry>& entries, const std::string& host, int device) {
  return std::ranges::any_of(entries, [&](const RunEntry& entry) {
    return std::ranges::any_of(entry.nodes, [&](const model::Node* node) {
      return node->host == host && std::ranges::count(node->devices, device) > 0;
    });
  });
}

// An orphan allocation ends with the last of its nodes. A device that a run of the store also holds
// counts once.
std::vector<std::shared_ptr<const OrphanAllocation>> orphan_allocations(
    const std::map<model::NodeName, model::Orphan>& orphans, const std::vector<RunEntry>& entries) {
  std::map<model::RunId, std::shared_ptr<OrphanAllocation>> found;
  for (const auto& [name, orphan] : orphans) {
    auto& allocation = found[name.id.attempt.run];
    if (!allocation) allocation = std::make_shared<OrphanAllocation>();
    allocation->run.id = allocation->attempt.id.run =
        model::orphan_allocation_id(name.id.attempt.run);
    allocation->run.state = model::RunState::running;
    allocation->run.spec.timeout = Duration(0);
    allocation->attempt.created = std::max(allocation->attempt.created, orphan.expected_end);
    model::Node& node = allocation->nodes.emplace_back();
    node.host = orphan.devices.host;
    for (int device : orphan.devices.devices)
      if (!is_held(entries, node.host, device)) node.devices.push_back(device);
  }
  std::vector<std::shared_ptr<const OrphanAllocation>> all;
  for (auto& [run, allocation] : found) all.push_back(std::move(allocation));
  return all;
}

RunEntry run_entry_of(const OrphanAllocation& allocation) {
  RunEntry entry{.run = &allocation.run, .attempt = &allocation.attempt};
  for (const model::Node& node : allocation.nodes) entry.nodes.push_back(&node);
  return entry;
}

// Compares the devices and the end of each orphan allocation.
bool same_orphans(const QueueSnapshot& one, const QueueSnapshot& other) {
  return std::ranges::equal(one.orphans, other.orphans, [](const auto& a, const auto& b) {
    return a->run.id == b->run.id && a->attempt.created == b->attempt.created &&
           a->nodes == b->nodes;
  });
}

}  // namespace

QueueSnapshot queue_snapshot_of(const model::State& durable, const Commit& commit) {
  const CommitView rows(durable, commit);
  QueueSnapshot snapshot{.hosts = rows.hosts(), .limits = rows.limits()};
  const auto orphans = rows.orphans();
  for (const model::RunId& id : rows.open()) {
    RunEntry entry = run_entry_of(rows, durable, id);
    if (entry.attempt || !has_orphans(orphans, id)) snapshot.entries.push_back(std::move(entry));
  }
  snapshot.orphans = orphan_allocations(orphans, snapshot.entries);
  for (const auto& allocation : snapshot.orphans)
    snapshot.entries.push_back(run_entry_of(*allocation));
  return snapshot;
}

// --- The order ---

// Debug runs ahead of all other runs: those that wait while the debug share has room for them.
std::set<model::RunId> SchedulingOracle::debug_share_runs(const QueueSnapshot& snapshot) const {
  int held = 0;
  for (const RunEntry& entry : snapshot.entries) {
    if (!is_debug(*entry.run) || !entry.attempt) continue;
    const bool twice = !entry.attempt->move_destination.empty();
    held += model::rank_count(entry.run->spec) * (twice ? 2 : 1);
  }
  std::set<model::RunId> debug_runs;
  for (const RunEntry& entry : snapshot.entries) {
    const int then = held + model::rank_count(entry.run->spec);
    if (is_debug(*entry.run) && is_in_queue(entry) &&
        then * 100 <= capacity_.device_count() * kDebugSharePercent)
      debug_runs.insert(entry.run->id);
  }
  return debug_runs;
}

// A run is behind those of its project with a higher priority: its key is the latest of their keys.
SchedulingOracle::QueueKeys SchedulingOracle::queue_keys(const QueueSnapshot& snapshot) const {
  const std::set<model::RunId> debug_runs = debug_share_runs(snapshot);
  QueueKeys keys;
  for (const RunEntry& entry : snapshot.entries) {
    if (!is_in_queue(entry)) continue;
    const model::Run& run = *entry.run;
    Time key = key_of(run);
    for (const RunEntry& other : snapshot.entries)
      if (is_in_queue(other) && other.run->spec.project == run.spec.project &&
          other.run->spec.run_class == run.spec.run_class && other.run->priority > run.priority)
        key = std::max(key, key_of(*other.run));
    const int tier = debug_runs.contains(run.id) ? kDebugShare
                     : is_preemptible(run)       ? kPreemptible
                                                 : kOrdinary;
    const int late = is_debug(run) ? 1 : 0;
    keys.emplace(run.id, QueueKey(tier, key, late, -run.priority, key_of(run), run.queued, run.id));
  }
  return keys;
}

std::vector<model::RunId> SchedulingOracle::order(const QueueSnapshot& snapshot) const {
  const QueueKeys keys = queue_keys(snapshot);
  std::vector<model::RunId> waiting;
  for (const RunEntry& entry : snapshot.entries)
    if (model::waits_for_devices(*entry.run)) waiting.push_back(entry.run->id);
  std::ranges::sort(waiting, {}, [&](const model::RunId& id) { return keys.at(id); });
  return waiting;
}

// --- Devices ---

// A run that is moved has two allocations. The second lasts until the run would end there.
std::vector<SchedulingOracle::TimedAllocation> SchedulingOracle::timed_allocations(
    const AllocatedEntries& allocated) {
  std::vector<TimedAllocation> allocations;
  for (const RunEntry* entry : allocated) {
    const auto& moves_to = entry->attempt->move_destination;
    TimedAllocation here{entry, end_of(*entry), moves_to.empty()};
    for (const model::Node* node : entry->nodes)
      here.devices.emplace_back(node->host, static_cast<int>(node->devices.size()));
    allocations.push_back(std::move(here));
    if (moves_to.empty()) continue;
    TimedAllocation there{entry, end_of(*entry) + time_left(*entry->run), true};
    for (const model::HostDevices& slice : moves_to)
      there.devices.emplace_back(slice.host, static_cast<int>(slice.devices.size()));
    allocations.push_back(std::move(there));
  }
  return allocations;
}

void SchedulingOracle::add_devices(const QueueSnapshot& snapshot, const TimedAllocation& allocation,
                                   ClusterCapacity::FreeDevices& free, int sign) const {
  for (const auto& [name, devices] : allocation.devices) {
    const auto host = capacity_.find(name);
    const auto state = snapshot.hosts.find(name);
    const bool closed = state != snapshot.hosts.end() && refuses_runs(state->second);
    if (host && !closed) free[*host] += sign * devices;
  }
}

ClusterCapacity::FreeDevices SchedulingOracle::free_devices(
    const QueueSnapshot& snapshot, const AllocatedEntries& allocated) const {
  ClusterCapacity::FreeDevices free = capacity_.all_free();
  for (const auto& [name, state] : snapshot.hosts)
    if (const auto host = capacity_.find(name); host && refuses_runs(state)) free[*host] = 0;
  for (const TimedAllocation& allocation : timed_allocations(allocated))
    add_devices(snapshot, allocation, free, -1);
  return free;
}

// A gang that fits only with closed hosts blocks no other run.
bool SchedulingOracle::can_be_placed(const QueueSnapshot& snapshot,
                                     const model::RunSpec& spec) const {
  return capacity_.fits(spec, free_devices(snapshot, {}));
}

// The first moment at which the run fits and no limit blocks it, if all allocated runs end on time.
// Time{} means now; nothing means never. If the run is not preemptible, preemptible
// runs count as gone `behind` after the runs that already drain, because the run has them evicted
// when its turn comes.
std::optional<Time> SchedulingOracle::earliest_start(const QueueSnapshot& snapshot,
                                                     const model::Run& run,
                                                     AllocatedEntries allocated,
                                                     Duration behind) const {
  ClusterCapacity::FreeDevices free = free_devices(snapshot, allocated);
  const auto fits = [&] {
    return capacity_.fits(run.spec, free) && !exceeded_limit(snapshot, allocated, run);
  };
  if (fits()) return Time{};
  std::vector<TimedAllocation> allocations = timed_allocations(allocated);
  Time evicted(Duration(1));
  for (const TimedAllocation& allocation : allocations)
    if (has_draining_attempt(*allocation.entry)) evicted = std::max(evicted, allocation.end);
  for (TimedAllocation& allocation : allocations)
    if (!is_preemptible(run) && is_preemptible(*allocation.entry->run) &&
        !has_draining_attempt(*allocation.entry))
      allocation.end = std::min(allocation.end, evicted + behind);
  std::ranges::sort(allocations, std::greater(), &TimedAllocation::end);
  while (!allocations.empty()) {
    const Time moment = allocations.back().end;
    for (; !allocations.empty() && allocations.back().end == moment; allocations.pop_back()) {
      add_devices(snapshot, allocations.back(), free, 1);
      if (allocations.back().is_last) std::erase(allocated, allocations.back().entry);
    }
    if (fits()) return moment;
  }
  return std::nullopt;
}

// The first waiting run of all tiers or of one tier. A run whose limit is already used up blocks no
// other run, and a run that is about to start does not either.
const model::Run* SchedulingOracle::first_waiting(const QueueSnapshot& snapshot,
                                                  const QueueKeys& keys,
                                                  std::optional<int> tier) const {
  const AllocatedEntries allocated = allocated_entries(snapshot);
  const model::Run* first = nullptr;
  for (const RunEntry& entry : snapshot.entries) {
    const model::Run& run = *entry.run;
    if (!model::waits_for_devices(run)) continue;
    if (tier && std::get<0>(keys.at(run.id)) != *tier) continue;
    if (first && keys.at(first->id) < keys.at(run.id)) continue;
    if (exceeded_limit(snapshot, allocated, run) || !can_be_placed(snapshot, run.spec)) continue;
    first = &run;
  }
  return first;
}

std::optional<SchedulingOracle::Head> SchedulingOracle::head(const QueueSnapshot& snapshot) const {
  const model::Run* first = first_waiting(snapshot, queue_keys(snapshot));
  if (!first) return std::nullopt;
  const auto start = earliest_start(snapshot, *first, allocated_entries(snapshot));
  return Head{first, start.value_or(Time::max())};
}

// --- Runs that start ---

std::optional<std::string> SchedulingOracle::check_starts(const QueueSnapshot& snapshot) const {
  for (const RunEntry& entry : snapshot.entries) {
    if (!entry.starts || entry.moves) continue;
    if (auto wrong = check_placement(snapshot, entry)) return wrong;
    if (const model::LimitId* limit =
            exceeded_limit(snapshot, allocated_entries(snapshot), *entry.run))
      return format("{} starts, and the {} holds more than it may", text(entry.run->id),
                    text(*limit));
  }
  return check_start_order(snapshot);
}

// The hosts must accept runs and lie in one pod. Avoided hosts are allowed only if the gang fits
// nowhere else.
std::optional<std::string> SchedulingOracle::check_placement(const QueueSnapshot& snapshot,
                                                             const RunEntry& entry) const {
  const auto message = [&](const std::string& what) {
    return format("{} starts {}", text(entry.run->id), what);
  };
  std::set<int> pods;
  const std::string* avoided = nullptr;
  for (const model::Node* node : entry.nodes) {
    if (const auto host = capacity_.find(node->host)) pods.insert(capacity_.pod_of(*host));
    const auto state = snapshot.hosts.find(node->host);
    if (state == snapshot.hosts.end()) continue;
    if (refuses_runs(state->second))
      return message(format("on {}, which is {}", node->host, text(state->second)));
    avoided = &node->host;
  }
  if (pods.size() > 1 && capacity_.stays_in_one_pod(entry.run->spec))
    return message("over several pods, and one of them is large enough");
  if (!avoided) return std::nullopt;
  AllocatedEntries others = allocated_entries(snapshot);
  std::erase(others, &entry);
  ClusterCapacity::FreeDevices free = free_devices(snapshot, others);
  for (const auto& [name, state] : snapshot.hosts)
    if (const auto host = capacity_.find(name)) free[*host] = 0;
  if (!capacity_.fits(entry.run->spec, free)) return std::nullopt;
  return message(format("on {}, which is avoided, though others have room", *avoided));
}

// A run behind others of its project moves up once those have started, so the order of the checks
// matters. Any valid order suffices, because the pass visits the queue several times.
std::optional<std::string> SchedulingOracle::check_start_order(
    const QueueSnapshot& snapshot) const {
  QueueSnapshot moment = before_starts(snapshot);
  FailedOrders failed_orders;
  return check_start_order_from(moment, snapshot, failed_orders);
}

// Checks the starts that are left from this moment on. Returns the violation of the first, if no
// order is valid.
std::optional<std::string> SchedulingOracle::check_start_order_from(
    QueueSnapshot& moment, const QueueSnapshot& end, FailedOrders& failed_orders) const {
  const QueueKeys keys = queue_keys(moment);
  std::map<QueueKey, std::size_t> left;
  for (std::size_t i = 0; i < moment.entries.size(); ++i)
    if (is_about_to_start(moment.entries[i])) left.emplace(keys.at(moment.entries[i].run->id), i);
  std::set<std::size_t> names;
  for (const auto& [place, i] : left) names.insert(i);
  if (const auto known = failed_orders.find(names); known != failed_orders.end())
    return known->second;
  std::optional<std::string> first_wrong;
  for (const auto& [place, i] : left) {
    auto wrong = check_start(moment, keys, end.entries[i]);
    if (!wrong) {
      const RunEntry before = std::exchange(moment.entries[i], end.entries[i]);
      wrong = check_start_order_from(moment, end, failed_orders);
      moment.entries[i] = before;
      if (!wrong) return std::nullopt;
    }
    if (!first_wrong) first_wrong = std::move(wrong);
  }
  if (first_wrong) failed_orders.emplace(std::move(names), *first_wrong);
  return first_wrong;
}

// A preemptible run may pass a head that is not preemptible, since the head can have it evicted. It
// is checked against the first waiting preemptible run, unless an attempt drains for a head. That
// first run may wait only because a run ahead needs its devices or its limit (unless it ends in
// time); then it loses no position.
std::optional<std::string> SchedulingOracle::check_start(const QueueSnapshot& moment,
                                                         const QueueKeys& keys,
                                                         const RunEntry& entry) const {
  const bool alone =
      is_preemptible(*entry.run) && std::ranges::none_of(moment.entries, has_draining_attempt);
  const model::Run* head =
      alone ? first_waiting(moment, keys, kPreemptible) : first_waiting(moment, keys);
  if (!head || keys.at(entry.run->id) < keys.at(head->id)) return std::nullopt;
  if (would_exhaust_limit(moment, keys, *head)) return std::nullopt;
  const auto message = [&](std::string_view harm) {
    return format("{} starts before {}, {}", text(entry.run->id), text(head->id), harm);
  };
  AllocatedEntries allocated = allocated_entries(moment);
  // No run takes devices that the head gets when the draining runs have left, for which others were
  // evicted.
  const auto before = earliest_start(moment, *head, allocated, kMoment);
  if (before == Time{}) return message("which stands ahead of it and would fit");
  allocated.push_back(&entry);
  if (earliest_start(moment, *head, allocated, kMoment) != before)
    return message("which it delays");
  return std::nullopt;
}

// --- Runs that wait ---

// Compares the heads before any run starts, because each start is checked separately. An overdue
// start may happen at any moment. The devices of orphans become known when the engine is queried.
std::optional<std::string> SchedulingOracle::check_head_not_delayed(const QueueSnapshot& before,
                                                                    const QueueSnapshot& after,
                                                                    Time now) const {
  const QueueSnapshot then = before_starts(after);
  const auto was = head(before), is = head(then);
  if (!same_orphans(before, then)) return std::nullopt;
  if (!was || !is || was->run->id != is->run->id || is->start <= std::max(was->start, now))
    return std::nullopt;
  std::map<model::RunId, Time> ends;
  for (const RunEntry* entry : allocated_entries(before)) ends[entry->run->id] = end_of(*entry);
  for (const RunEntry* entry : allocated_entries(then)) {
    const auto former = ends.find(entry->run->id);
    if (is_moved_off_drained_host(before, then, *entry)) return std::nullopt;
    if (former != ends.end() && former->second <= now && former->second < end_of(*entry))
      return std::nullopt;
  }
  for (const auto& [host, state] : then.hosts) {
    const auto former = before.hosts.find(host);
    if (refuses_runs(state) && (former == before.hosts.end() || !refuses_runs(former->second)))
      return std::nullopt;
  }
  return format("{} was to start at {} and now at {}, and nobody ahead of it came",
                text(is->run->id), text(was->start), text(is->start));
}

// The latest end of a run that delays none of the heads of its own tier and the tiers ahead. A
// preemptible run is not checked against other tiers, because they can have it evicted, unless an
// attempt drains for one of them: then it must not use the devices that become free.
Time SchedulingOracle::latest_end_for(const QueueSnapshot& snapshot, const QueueKeys& keys,
                                      const model::Run& run) const {
  const int own = std::get<0>(keys.at(run.id));
  const bool alone =
      own == kPreemptible && std::ranges::none_of(snapshot.entries, has_draining_attempt);
  Time bound = Time::max();
  for (int tier = alone ? own : kDebugShare; tier <= own; ++tier) {
    const model::Run* first = first_waiting(snapshot, keys, tier);
    if (!first || first == &run) continue;
    const auto start = earliest_start(snapshot, *first, allocated_entries(snapshot));
    bound = std::min(bound, start.value_or(Time::max()));
  }
  return bound;
}

// True if the preemptible run would use up a limit that the project or user of a run ahead needs.
bool SchedulingOracle::would_exhaust_limit(const QueueSnapshot& snapshot, const QueueKeys& keys,
                                           const model::Run& run) const {
  if (!is_preemptible(run)) return false;
  const RunEntry entry{&run};
  AllocatedEntries allocated = allocated_entries(snapshot);
  allocated.push_back(&entry);
  for (int tier = kDebugShare; tier < kPreemptible; ++tier)
    if (const model::Run* first = first_waiting(snapshot, keys, tier);
        first && exceeded_limit(snapshot, allocated, *first))
      return true;
  return false;
}

std::optional<std::string> SchedulingOracle::check_no_run_idle(const QueueSnapshot& snapshot,
                                                               Time now) const {
  const QueueKeys keys = queue_keys(snapshot);
  const AllocatedEntries allocated = allocated_entries(snapshot);
  const ClusterCapacity::FreeDevices free = free_devices(snapshot, allocated);
  for (const RunEntry& entry : snapshot.entries) {
    const model::Run& run = *entry.run;
    if (!model::waits_for_devices(run) || exceeded_limit(snapshot, allocated, run)) continue;
    if (!can_be_placed(snapshot, run.spec) || !capacity_.fits(run.spec, free)) continue;
    if (would_exhaust_limit(snapshot, keys, run)) continue;
    const Time bound = latest_end_for(snapshot, keys, run);
    if (bound == Time::max()) return format("{} is the first that waits, and fits", text(run.id));
    if (now + time_left(run) <= bound)
      return format("{} waits, though it fits and ends before {}, when those ahead of it can start",
                    text(run.id), text(bound));
  }
  return std::nullopt;
}

}  // namespace lockstep::sim
