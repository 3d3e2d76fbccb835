#include "platform/core/sched/queue/start_estimates.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "platform/core/sched/capacity/choose_hosts.h"
#include "platform/core/sched/queue/debug_share.h"

namespace lockstep::sched {
namespace {

// A cluster whose time advances only as far as the next run needs it.
class FutureCluster {
 public:
  FutureCluster(const FreeCapacity& capacity, const AllocatedRuns& allocated_runs, Time now)
      : free_capacity_(capacity), ends_(allocated_runs.by_end()), now_(now) {}

  // Places the run at the first time from here on at which it fits, for its time limit.
  Time start(const Gang& gang, Duration limit, bool evicts, Fit fit) {
    if (evicts && !fits(gang)) evict();
    while (!fits(gang)) advance_to_next_end();
    const auto hosts =
        gang.shape.needs == model::Needs{}
            ? choose_hosts(free_capacity_, gang, fit)
            : choose_hosts(restricted_to(gang.shape.needs, free_capacity_), gang, fit);
    for (std::size_t i = 0; i < hosts.size(); ++i)
      free_capacity_.subtract(hosts[i], resources_on(gang.shape, i));
    placed_.push({now_ + limit, placed_gangs_.size()});
    placed_gangs_.push_back({gang.shape, hosts});
    return now_;
  }

 private:
  using End = std::pair<Time, std::size_t>;
  struct PlacedGang {
    Shape shape;
    std::vector<int> hosts;
  };

  bool fits(const Gang& gang) const {
    return gang.shape.needs == model::Needs{}
               ? free_capacity_.fits(gang)
               : restricted_to(gang.shape.needs, free_capacity_).fits(gang);
  }

  void release(const AllocatedRun& allocated_run) {
    for (const HostAllocation& taken : allocated_run.allocations)
      free_capacity_.add_back(taken.host, resources_of(taken));
  }

  void evict() {
    if (std::exchange(evicted_, true)) return;
    for (auto end = next_; end != ends_.end(); ++end)
      if (is_evictable(*end->allocated_run)) release(*end->allocated_run);
  }

  // Advances to the next end: a run fits when all have ended.
  void advance_to_next_end() {
    LS_CHECK(next_ != ends_.end() || !placed_.empty());
    const bool of_placed =
        next_ == ends_.end() || (!placed_.empty() && placed_.top().first < next_->time);
    if (!of_placed) {
      const auto& [time, allocated_run] = *next_++;
      now_ = std::max(now_, time);
      if (!evicted_ || !is_evictable(*allocated_run)) release(*allocated_run);
      return;
    }
    const auto [time, place] = placed_.top();
    placed_.pop();
    now_ = std::max(now_, time);
    const auto& [shape, hosts] = placed_gangs_[place];
    for (std::size_t i = 0; i < hosts.size(); ++i)
      free_capacity_.add_back(hosts[i], resources_on(shape, i));
  }

  FreeCapacity free_capacity_;
  const AllocatedRuns::Ends& ends_;  // of the runs that hold devices now
  AllocatedRuns::Ends::const_iterator next_ = ends_.begin();
  std::vector<PlacedGang> placed_gangs_;
  std::priority_queue<End, std::vector<End>, std::greater<>> placed_;
  bool evicted_ = false;
  Time now_;
};

}  // namespace

std::vector<std::optional<Time>> estimate_starts(const SchedulingPolicy& policy,
                                                 const DeviceAllocator& allocator,
                                                 const Accounts& accounts, WaitingList& waiting,
                                                 AllocatedRuns& allocated_runs, Time now) {
  FutureCluster ahead(allocator.free_capacity(), allocated_runs, now);
  std::vector<std::optional<Time>> starts;
  const auto has_room = [&](const WaitingList::Entry& entry) {
    return debug_share_has_room(policy, waiting, allocated_runs, waiting.gang(entry).shape);
  };
  const auto place = [&](const WaitingList::Entry& entry) {
    const Gang& gang = waiting.gang(entry);
    auto& start = starts.emplace_back();
    if (!can_be_placed(gang.scope)) return true;
    if (!accounts.allows(entry.account, device_count(gang.shape))) return true;
    start = ahead.start(gang, entry.time_limit, entry.tier != WaitingList::kPreemptibleTier,
                        policy.fit);
    return true;
  };
  visit_in_queue_order(waiting.entries(), has_room, place);
  return starts;
}

}  // namespace lockstep::sched
