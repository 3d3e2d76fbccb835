#include "platform/core/sched/preempt/evictions.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::sched {
namespace {

struct Victim {
  const AllocatedRun* allocated_run = nullptr;
  NodeResources load;  // of its node on one host
  Duration loss{};
};
using VictimsByHost = std::vector<std::vector<Victim>>;

bool is_behind_in_queue(const AllocatedRun& allocated_run, const VictimCriteria& victims) {
  const bool is_rival =
      allocated_run.run.project == victims.project && allocated_run.priority > victims.priority;
  return allocated_run.queue_key > *victims.pause_behind_key && !is_rival;
}

bool has_checkpoint(const SchedulingPolicy& policy, const AllocatedRun& allocated_run, Time now) {
  return allocated_run.last_checkpoint || now - allocated_run.started >= policy.checkpoint_interval;
}

bool is_victim(const SchedulingPolicy& policy, const AllocatedRun& allocated_run,
               const VictimCriteria& victims, Time now) {
  if (is_evictable(allocated_run)) return true;  // also if it started at this moment
  return !allocated_run.leaving && victims.pause_behind_key &&
         allocated_run.run_class == model::RunClass::normal && allocated_run.may_pause &&
         allocated_run.allocations.size() == 1 && is_behind_in_queue(allocated_run, victims) &&
         has_checkpoint(policy, allocated_run, now);
}

// By host, the run with the least loss first.
VictimsByHost victims_of(const HostTable& table, AllocatedRuns& allocated_runs,
                         const SchedulingPolicy& policy, const VictimCriteria& victims, Time now) {
  VictimsByHost by_host(table.names.size());
  for (const auto& [end, allocated_run] : allocated_runs.by_end()) {
    if (!is_victim(policy, *allocated_run, victims, now)) continue;
    const Duration loss = device_count(*allocated_run) * lost_time(policy, *allocated_run, now);
    for (const HostAllocation& taken : allocated_run->allocations)
      by_host[as_index(taken.host)].push_back({allocated_run, resources_of(taken), loss});
  }
  for (auto& all : by_host)
    std::ranges::sort(
        all, {}, [](const Victim& one) { return std::pair(one.loss, one.allocated_run->run); });
  return by_host;
}

// The evictions that free one host for one node.
struct HostEvictions {
  int host = 0;
  std::vector<const AllocatedRun*> evicted;
  Duration loss{};
};

class EvictionSearch {
 public:
  EvictionSearch(const FreeCapacity& capacity, const Gang& gang, VictimsByHost victims)
      : capacity_(restricted_to(gang.shape.needs, capacity)),
        eligible_hosts_(restricted_to(model::hardware_needs(gang.shape.needs), capacity)),
        gang_(gang),
        victims_(std::move(victims)) {}

  std::vector<model::RunId> cheapest() {
    const HostTable& table = capacity_.table();
    if (gang_.scope == PlacementScope::several_pods) {
      try_hosts(0, table.host_count());
    } else {
      for (const auto& [first, end] : table.pods) try_hosts(first, end);
    }
    return best_;
  }

 private:
  void try_hosts(int first, int end);
  std::optional<HostEvictions> find_host_evictions(int host, const NodeResources& node);
  bool has_capacity_for(int host, const NodeResources& node) const {
    return capacity_.is_eligible(host) && capacity_.free(host) >= node.devices;
  }

  FreeCapacity capacity_;
  const FreeCapacity eligible_hosts_;  // the hosts that fit if they were empty
  const Gang& gang_;
  const VictimsByHost victims_;
  std::vector<model::RunId> best_;
  Duration least_{};
};

void EvictionSearch::try_hosts(int first, int end) {
  const Shape& shape = gang_.shape;
  const auto cheaper = [](const HostEvictions& one) { return std::pair(one.loss, one.host); };
  const auto vacancies = [&](std::size_t node) {
    std::vector<HostEvictions> all;
    for (int host = first; host < end; ++host)
      if (auto vacancy = find_host_evictions(host, resources_on(shape, node)))
        all.push_back(std::move(*vacancy));
    std::ranges::sort(all, {}, cheaper);
    return all;
  };
  auto chosen = vacancies(0);
  if (std::ssize(chosen) < shape.nodes) return;
  chosen.resize(as_index(shape.nodes));
  if (shape.remainder > 0) {
    auto rest = vacancies(as_index(shape.nodes));
    std::erase_if(rest, [&](const HostEvictions& one) {
      return std::ranges::count(chosen, one.host, &HostEvictions::host) > 0;
    });
    if (rest.empty()) return;
    chosen.push_back(std::move(rest.front()));
  }
  std::ranges::sort(chosen, {}, &HostEvictions::host);
  std::vector<model::RunId> evictions;
  Duration loss{};
  for (const HostEvictions& vacancy : chosen) {
    loss += vacancy.loss;  // the loss of a gang on several of the hosts counts for each
    for (const AllocatedRun* allocated_run : vacancy.evicted)
      if (std::ranges::count(evictions, allocated_run->run) == 0)
        evictions.push_back(allocated_run->run);
  }
  if (evictions.empty() || (!best_.empty() && loss >= least_)) return;
  best_ = std::move(evictions);
  least_ = loss;
}

std::optional<HostEvictions> EvictionSearch::find_host_evictions(int host,
                                                                 const NodeResources& node) {
  if (!eligible_hosts_.is_eligible(host)) return std::nullopt;
  HostEvictions vacancy{.host = host, .evicted = {}};
  std::vector<const Victim*> gone;
  for (const Victim& victim : victims_[as_index(host)]) {
    if (has_capacity_for(host, node)) break;
    capacity_.add_back(host, victim.load);
    gone.push_back(&victim);
  }
  const bool enough = has_capacity_for(host, node);
  for (auto one = gone.rbegin(); one != gone.rend(); ++one) {
    capacity_.subtract(host, (*one)->load);
    if (!enough || has_capacity_for(host, node)) continue;  // need not leave
    capacity_.add_back(host, (*one)->load);
    vacancy.evicted.push_back((*one)->allocated_run);
    vacancy.loss += (*one)->loss;
  }
  for (const Victim* one : gone)
    if (std::ranges::count(vacancy.evicted, one->allocated_run) > 0)
      capacity_.subtract(host, one->load);
  if (!enough) return std::nullopt;
  return vacancy;
}

}  // namespace

Duration lost_time(const SchedulingPolicy& policy, const AllocatedRun& allocated_run, Time now) {
  const Duration lost_work = allocated_run.last_checkpoint
                                 ? now - *allocated_run.last_checkpoint
                                 : (now - allocated_run.started) % policy.checkpoint_interval;
  return lost_work + policy.restart_time;
}

std::vector<model::RunId> find_evictions(const FreeCapacity& capacity, const Gang& gang,
                                         AllocatedRuns& allocated_runs,
                                         const SchedulingPolicy& policy,
                                         const VictimCriteria& victims, Time now) {
  auto by_host = victims_of(capacity.table(), allocated_runs, policy, victims, now);
  return EvictionSearch(capacity, gang, std::move(by_host)).cheapest();
}

}  // namespace lockstep::sched
