#include "platform/core/sched/oracle/naive_queue.h"

#include <algorithm>
#include <functional>

namespace lockstep::sched {
namespace {

constexpr Duration kMoment(1);

bool is_debug(model::RunClass run_class) { return run_class == model::RunClass::debug; }
bool is_preemptible(model::RunClass run_class) { return run_class == model::RunClass::preemptible; }

int device_count(const PendingRun& run) { return run.nodes * run.devices + run.remainder; }

int device_count(const std::vector<model::HostDevices>& slices) {
  int count = 0;
  for (const model::HostDevices& slice : slices) count += static_cast<int>(slice.devices.size());
  return count;
}

// Devices, and when they become free. A run that is moved has two of these. The second lasts until
// the run would end there.
struct TimedDevices {
  const Allocation* allocation = nullptr;
  const std::vector<model::HostDevices>* devices = nullptr;
  Time end{};
  bool is_last = true;  // of the run
};

std::vector<TimedDevices> timed_devices(const std::vector<Allocation>& allocations) {
  std::vector<TimedDevices> all;
  for (const Allocation& one : allocations) {
    const bool moves = !one.move_destination.empty();
    all.push_back({&one, &one.devices, one.expected_end, !moves});
    if (moves)
      all.push_back({&one, &one.move_destination, one.expected_end + one.time_limit, true});
  }
  return all;
}

// A job that ends at an engine frees no device of the map.
bool frees_devices_soon(const Allocation& allocation) {
  return allocation.leaving && !is_at_engine(allocation);
}

bool any_leaves(const QueueState& state) {
  return std::ranges::any_of(state.allocations, frees_devices_soon);
}

// True if the run holds more than the limit with the other runs that `counts` selects.
template <class Counts>
bool exceeds(const std::map<std::string, int>& limits, const std::string& name,
             const QueueState& state, const PendingRun& run, Counts counts) {
  const auto limit = limits.find(name);
  if (limit == limits.end()) return false;
  int held = device_count(run);
  for (const Allocation& one : state.allocations)
    if (one.run != run.run && counts(one)) held += device_count(one.devices);
  return held > limit->second;
}

}  // namespace

bool refuses_runs(model::HostState state) {
  return state == model::HostState::closed || state == model::HostState::drained;
}

model::HostState host_state(const OperatorSettings& settings, const std::string& host) {
  const auto found = std::ranges::find(settings.hosts, host, &HostStatus::host);
  return found == settings.hosts.end() ? model::HostState::open : found->state;
}

QueueState with_started(QueueState state, const Allocation& started) {
  std::erase_if(state.waiting, [&](const PendingRun& one) { return one.run == started.run; });
  state.allocations.push_back(started);
  return state;
}

// --- The order ---

// A run can be passed by runs that came up to `aging` time limits later, more or fewer by the fair
// share of its project. The used part of the limit counts, so a lost attempt does not change it.
Time NaiveQueue::own_key(const PendingRun& run) const {
  Duration limit = run.time_limit + run.time_used;
  if (policy_.order == QueueOrder::arrival) return run.arrived;
  if (policy_.order == QueueOrder::shortest) return Time(limit);
  if (policy_.aging_cap > Duration(0)) limit = std::min(limit, policy_.aging_cap);
  return run.arrived + policy_.aging * limit * run.fair_share_used / 100;
}

// Each waiting debug run with which the debug runs would hold no more than the debug share.
NaiveQueue::RunIds NaiveQueue::debug_share(const QueueState& state) const {
  int held = 0;
  for (const Allocation& one : state.allocations)
    if (is_debug(one.run_class))
      held += device_count(one.devices) + device_count(one.move_destination);
  RunIds runs;
  for (const PendingRun& run : state.waiting)
    if (is_debug(run.run_class) &&
        (held + device_count(run)) * 100 <= devices_ * policy_.debug_share_percent)
      runs.insert(run.run);
  return runs;
}

// A run is behind those of its project with a higher priority: its key is the latest of their keys.
NaiveQueue::Keys NaiveQueue::keys(const QueueState& state) const {
  const RunIds debug = debug_share(state);
  Keys keys;
  for (const PendingRun& run : state.waiting) {
    Time latest = own_key(run);
    for (const PendingRun& other : state.waiting)
      if (other.priority > run.priority && other.run_class == run.run_class &&
          other.run.project == run.run.project)
        latest = std::max(latest, own_key(other));
    const Tier tier = debug.contains(run.run)         ? Tier::debug_share
                      : is_preemptible(run.run_class) ? Tier::preemptible
                                                      : Tier::ordinary;
    keys.emplace(run.run, Key(tier, latest, is_debug(run.run_class), -run.priority, own_key(run),
                              run.arrived, run.run));
  }
  return keys;
}

std::vector<model::RunId> NaiveQueue::order(const QueueState& state) const {
  const Keys keys = this->keys(state);
  std::vector<model::RunId> runs;
  for (const auto& [run, key] : keys) runs.push_back(run);
  std::ranges::sort(runs, {}, [&](const model::RunId& run) { return keys.at(run); });
  return runs;
}

// --- Devices and limits ---

void NaiveQueue::add_devices(const QueueState& state,
                             const std::vector<model::HostDevices>& devices, int sign,
                             ClusterCapacity::FreeDevices& free) const {
  for (const model::HostDevices& slice : devices)
    if (const auto host = capacity_.find(slice.host);
        host && !refuses_runs(host_state(state.settings, slice.host)))
      free[*host] += sign * static_cast<int>(slice.devices.size());
}

ClusterCapacity::FreeDevices NaiveQueue::free_devices(const QueueState& state) const {
  ClusterCapacity::FreeDevices free = capacity_.all_free();
  for (const HostStatus& one : state.settings.hosts)
    if (const auto host = capacity_.find(one.host); host && refuses_runs(one.state))
      free[*host] = 0;
  for (const Allocation& one : state.allocations) {
    add_devices(state, one.devices, -1, free);
    add_devices(state, one.move_destination, -1, free);
  }
  return free;
}

bool NaiveQueue::can_be_placed(const QueueState& state, const PendingRun& run) const {
  return capacity_.fits(run, free_devices({.settings = state.settings}));
}

std::optional<std::string> NaiveQueue::exceeded_limit(const QueueState& state,
                                                      const PendingRun& run) {
  const Limits& limits = state.settings.limits;
  if (exceeds(limits.project_devices, run.run.project, state, run,
              [&](const Allocation& one) { return one.run.project == run.run.project; }))
    return "project " + run.run.project;
  if (exceeds(limits.user_devices, run.user, state, run,
              [&](const Allocation& one) { return one.user == run.user; }))
    return "user " + run.user;
  return std::nullopt;
}

// --- The head ---

const PendingRun* NaiveQueue::head(const QueueState& state, const Keys& keys,
                                   const RunIds& starting, std::optional<Tier> tier) const {
  const PendingRun* first = nullptr;
  for (const PendingRun& run : state.waiting) {
    if (starting.contains(run.run)) continue;
    const Key& key = keys.at(run.run);
    if (tier && std::get<Tier>(key) != *tier) continue;
    if (first && keys.at(first->run) < key) continue;
    if (exceeded_limit(state, run) || !can_be_placed(state, run)) continue;
    first = &run;
  }
  return first;
}

std::optional<Time> NaiveQueue::earliest_start(const QueueState& state, const PendingRun& run,
                                               Duration behind) const {
  ClusterCapacity::FreeDevices free = free_devices(state);
  if (capacity_.fits(run, free) && !exceeded_limit(state, run)) return Time{};
  std::vector<TimedDevices> held = timed_devices(state.allocations);
  Time evicted(kMoment);
  for (const TimedDevices& one : held)
    if (frees_devices_soon(*one.allocation)) evicted = std::max(evicted, one.end);
  for (TimedDevices& one : held)
    if (!is_preemptible(run.run_class) && is_preemptible(one.allocation->run_class) &&
        !one.allocation->leaving)
      one.end = std::min(one.end, evicted + behind);
  std::ranges::sort(held, std::greater(), &TimedDevices::end);
  QueueState then = state;
  while (!held.empty()) {
    const Time moment = held.back().end;
    for (; !held.empty() && held.back().end == moment; held.pop_back()) {
      add_devices(state, *held.back().devices, 1, free);
      if (held.back().is_last)
        std::erase_if(then.allocations, [&](const Allocation& one) {
          return one.run == held.back().allocation->run;
        });
    }
    if (capacity_.fits(run, free) && !exceeded_limit(then, run)) return moment;
  }
  return std::nullopt;
}

// No run takes devices that the head gets when the leaving runs have left, for which others were
// evicted. A run that ends after the head's start leaves it the devices that it may hold.
bool NaiveQueue::delays(const QueueState& state, const PendingRun& head,
                        const Allocation& started) const {
  const auto before = earliest_start(state, head, kMoment);
  const QueueState then = with_started(state, started);
  if (earliest_start(then, head, kMoment) != before) return true;
  return before && started.expected_end > *before && exceeded_limit(then, head);
}

// --- Runs that may start ---

// True if the preemptible run would use up a limit that the first run of a tier ahead needs.
bool NaiveQueue::exhausts_limit(const QueueState& state, const Keys& keys, const RunIds& starting,
                                const PendingRun& run) const {
  if (!is_preemptible(run.run_class)) return false;
  Allocation anywhere;
  anywhere.run = run.run;
  anywhere.user = run.user;
  anywhere.devices.push_back({"", std::vector<int>(static_cast<std::size_t>(device_count(run)))});
  const QueueState then = with_started(state, anywhere);
  for (const Tier tier : {Tier::debug_share, Tier::ordinary})
    if (const PendingRun* first = head(state, keys, starting, tier);
        first && exceeded_limit(then, *first))
      return true;
  return false;
}

// A preemptible run may pass a head that is not preemptible, since the head can have it evicted. It
// must not delay the first waiting preemptible run, nor any head while runs leave for one. That
// first run may wait only because a run ahead needs its limit; then it loses no position.
std::optional<NaiveQueue::Conflict> NaiveQueue::conflict(const QueueState& state, const Keys& keys,
                                                         const RunIds& starting,
                                                         const Allocation& started) const {
  const bool passes_others = is_preemptible(started.run_class) && !any_leaves(state);
  const PendingRun* first =
      head(state, keys, starting, passes_others ? std::optional(Tier::preemptible) : std::nullopt);
  if (!first || keys.at(started.run) < keys.at(first->run)) return std::nullopt;
  if (exhausts_limit(state, keys, starting, *first)) return std::nullopt;
  if (earliest_start(state, *first, kMoment) == Time{})
    return Conflict{first, Violation::head_fits};
  if (delays(state, *first, started)) return Conflict{first, Violation::head_delayed};
  return std::nullopt;
}

// The run delays neither the head of its own tier nor those of the tiers ahead. A preemptible run
// is not checked against other tiers, unless runs leave for one of them.
std::optional<Time> NaiveQueue::latest_permitted_end(const QueueState& state, const Keys& keys,
                                                     const PendingRun& run) const {
  if (exceeded_limit(state, run) || !can_be_placed(state, run)) return std::nullopt;
  if (!capacity_.fits(run, free_devices(state))) return std::nullopt;
  if (exhausts_limit(state, keys, {}, run)) return std::nullopt;
  const Tier own = std::get<Tier>(keys.at(run.run));
  const bool passes_others = own == Tier::preemptible && !any_leaves(state);
  Time bound = Time::max();
  for (const Tier tier : {Tier::debug_share, Tier::ordinary, Tier::preemptible}) {
    if (tier > own || (passes_others && tier != own)) continue;
    const PendingRun* first = head(state, keys, {}, tier);
    if (!first || first->run == run.run) continue;
    bound = std::min(bound, earliest_start(state, *first).value_or(Time::max()));
  }
  return bound;
}

}  // namespace lockstep::sched
