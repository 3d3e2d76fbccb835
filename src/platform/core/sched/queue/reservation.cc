#include "platform/core/sched/queue/reservation.h"

#include <algorithm>
#include <utility>

#include "platform/core/sched/capacity/choose_hosts.h"

namespace lockstep::sched {

// The start or end of an earlier head.
struct Reservation::HeadEvent {
  Time time{};
  bool starts = false;
  std::size_t head = 0;  // index in `earlier`
};

// Future events in the order of time.
struct Reservation::Future {
  const AllocatedRuns::Ends& ends;
  std::span<const Reservation> earlier;
  std::vector<HeadEvent> events = head_events(earlier);
  // The hosts of the earlier heads, once they have started.
  std::vector<std::vector<int>> head_hosts = std::vector<std::vector<int>>(earlier.size());
  AllocatedRuns::Ends::const_iterator end = ends.begin();  // the next one
  std::size_t change = 0;                                  // the next one
  bool evicted = false;                                    // all evictable runs have left

  Time next() const {
    const Time allocated_run = end != ends.end() ? end->time : Time::max();
    return change < events.size() ? std::min(allocated_run, events[change].time) : allocated_run;
  }
};

Reservation::Reservation(const FreeCapacity& capacity, const Gang& head, Duration limit,
                         AllocatedRuns& allocated_runs, std::optional<Time> evicts,
                         std::span<const Reservation> earlier)
    : free_capacity_(capacity), head_(head), limit_(limit) {
  free_capacity_.restrict_to(head.shape.needs);
  Future ahead{.ends = allocated_runs.by_end(), .earlier = earlier};
  if (evicts && allocated_runs.count_of(model::RunClass::preemptible) > 0) {
    const auto last = allocated_runs.last_leaving();
    while (last && !head_fits() && ahead.next() <= *last) advance_to_next_end(ahead);
    if (!head_fits()) evict(ahead, last.value_or(*evicts));
  }
  while (!head_fits()) advance_to_next_end(ahead);
}

void Reservation::evict(Future& ahead, Time when) {
  start_ = when;
  blocker_.reset();
  for (auto end = ahead.end; end != ahead.ends.end(); ++end)
    if (is_evictable(*end->allocated_run)) release(*end->allocated_run);
  ahead.evicted = true;
}

// Processes all events of the next time: ends come before starts.
void Reservation::advance_to_next_end(Future& ahead) {
  auto& [ends, earlier, changes, head_hosts, end, next, evicted] = ahead;
  LS_CHECK(end != ends.end() || next < changes.size());  // the head fits when all have ended
  start_ = ahead.next();
  blocker_.reset();
  for (; end != ends.end() && end->time == start_; ++end) {
    const AllocatedRun& allocated_run = *end->allocated_run;
    if (!evicted || !is_evictable(allocated_run)) release(allocated_run);
  }
  for (; next < changes.size() && changes[next].time <= start_; ++next) {
    const Gang& gang = earlier[changes[next].head].head_;
    auto& hosts = head_hosts[changes[next].head];
    if (changes[next].starts)
      hosts = choose_hosts(restricted_to(gang.shape.needs, free_capacity_), gang, Fit::best);
    for (std::size_t i = 0; i < hosts.size(); ++i)
      change(hosts[i], resources_on(gang.shape, i), changes[next].starts ? -1 : 1);
  }
}

// In the order of time; ends before starts.
std::vector<Reservation::HeadEvent> Reservation::head_events(std::span<const Reservation> earlier) {
  std::vector<HeadEvent> changes;
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    changes.push_back({earlier[i].start_, true, i});
    changes.push_back({earlier[i].start_ + earlier[i].limit_, false, i});
  }
  std::ranges::stable_sort(
      changes, {}, [](const HeadEvent& change) { return std::pair(change.time, change.starts); });
  return changes;
}

bool Reservation::try_backfill(const Shape& shape, std::span<const int> hosts) {
  // Devices that an earlier head holds then are not available.
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!free_capacity_.has_free(hosts[i], resources_on(shape, i).devices)) return false;
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], resources_on(shape, i), -1);
  if (head_fits()) return true;
  undo_backfill(shape, hosts);
  return false;
}

void Reservation::undo_backfill(const Shape& shape, std::span<const int> hosts) {
  for (std::size_t i = 0; i < hosts.size(); ++i) change(hosts[i], resources_on(shape, i), 1);
}

void Reservation::change(int host, const NodeResources& load, int sign) {
  const int pod = free_capacity_.table().pod_of[as_index(host)];
  fitting_pods_ -= int{free_capacity_.fits_in_pod(head_.shape, pod)};
  if (sign < 0)
    free_capacity_.subtract(host, load);
  else
    free_capacity_.add_back(host, load);
  fitting_pods_ += int{free_capacity_.fits_in_pod(head_.shape, pod)};
}

bool Reservation::head_fits() const {
  return head_.scope == PlacementScope::several_pods ? free_capacity_.fits_over_pods(head_.shape)
                                                     : fitting_pods_ > 0;
}

void Reservation::release(const AllocatedRun& allocated_run) {
  const bool fitted = head_fits();
  for (const HostAllocation& taken : allocated_run.allocations)
    change(taken.host, resources_of(taken), 1);
  if (!fitted && head_fits()) blocker_ = allocated_run.run;
}

}  // namespace lockstep::sched
