// The policies, as they are defined for a public trace (docs/design/scheduler.md), as simple as
// possible. NaiveQueue says which run is next and whether a run may pass the head; this chooses the
// hosts. Hosts have eight devices and the map's order, pods equally many hosts. A gang of g >= 8
// devices takes g / 8 empty hosts and g mod 8 on one more.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "platform/core/model/host_state.h"
#include "platform/core/sched/oracle/naive_queue.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched::testing_naive {

using Place = std::vector<std::pair<int, int>>;  // host, devices

// The choice of hosts for a gang, by their free devices.
class Hosts {
 public:
  Hosts(std::vector<int> free, int hosts_of_a_pod, Fit fit)
      : free_(std::move(free)), hosts_(hosts_of_a_pod), fit_(fit) {}

  Place place(int devices) const { return devices < 8 ? small(devices) : gang(devices); }

 private:
  int at(int host) const { return free_[static_cast<std::size_t>(host)]; }
  int count() const { return static_cast<int>(free_.size()); }
  int empty_in(int pod) const {
    int empty = 0;
    for (int host = pod * hosts_; host < (pod + 1) * hosts_; ++host) empty += at(host) == 8;
    return empty;
  }

  Place small(int devices) const {
    std::optional<std::tuple<int, int, int>> best;
    for (int host = 0; host < count(); ++host) {
      if (at(host) < devices) continue;
      if (fit_ == Fit::first) return {{host, devices}};
      const std::tuple key(at(host), empty_in(host / hosts_), host);
      if (!best || key < *best) best = key;
    }
    return best ? Place{{std::get<2>(*best), devices}} : Place{};
  }

  Place gang_in(int pod, int devices) const {
    Place place;
    for (int host = pod * hosts_; host < (pod + 1) * hosts_; ++host)
      if (at(host) == 8 && std::ssize(place) < devices / 8) place.push_back({host, 8});
    if (std::ssize(place) < devices / 8) return {};
    if (devices % 8 == 0) return place;
    std::optional<std::tuple<bool, int, int>> best;
    for (int host = pod * hosts_; host < (pod + 1) * hosts_; ++host) {
      const bool chosen = std::ranges::count(place, host, &std::pair<int, int>::first) > 0;
      if (chosen || at(host) < devices % 8) continue;
      const std::tuple key(fit_ == Fit::best && at(host) == 8, fit_ == Fit::best ? at(host) : 0,
                           host);
      if (!best || key < *best) best = key;
    }
    if (!best) return {};
    place.push_back({std::get<2>(*best), devices % 8});
    return place;
  }

  Place gang(int devices) const {
    Place best;
    int fewest = 0;
    for (int pod = 0; pod < count() / hosts_; ++pod) {
      const Place place = gang_in(pod, devices);
      if (place.empty()) continue;
      if (fit_ == Fit::first) return place;
      if (best.empty() || empty_in(pod) < fewest) {
        best = place;
        fewest = empty_in(pod);
      }
    }
    return best;
  }

  std::vector<int> free_;
  int hosts_;
  Fit fit_;
};

class NaiveScheduler {
 public:
  // The hosts of the map are h0, h1, ...
  NaiveScheduler(const map::ClusterMap& map, int hosts_of_a_pod, const SchedulingPolicy& policy)
      : policy_(policy), queue_(map, policy), hosts_of_a_pod_(hosts_of_a_pod) {}

  // To be changed between passes.
  QueueState& state() { return state_; }

  // Returns the runs that start, and where.
  std::vector<Allocation> pass(Time now) {
    std::vector<Allocation> started = walk(now);
    if (!policy_.repeats_until_stable) return started;
    for (auto more = walk(now); !more.empty(); more = walk(now))
      started.insert(started.end(), more.begin(), more.end());
    return started;
  }

 private:
  std::vector<Allocation> walk(Time now) {
    const bool shortest_first = policy_.backfill_order == BackfillOrder::shortest_first;
    std::vector<Allocation> started;
    std::vector<PendingRun> behind;
    std::optional<PendingRun> head;
    for (const model::RunId& id : queue_.order(state_)) {
      const PendingRun run = *std::ranges::find(state_.waiting, id, &PendingRun::run);
      if (head && shortest_first)
        behind.push_back(run);
      else if (!try_start(run, head, now, started) && !head && may_wait_for_devices(run))
        head = run;
    }
    std::ranges::stable_sort(behind, {}, &PendingRun::time_limit);
    const auto start_shortest = [&] {
      const auto found = std::ranges::find_if(
          behind, [&](const PendingRun& run) { return try_start(run, head, now, started); });
      if (found == behind.end()) return false;
      behind.erase(found);
      return true;
    };
    while (start_shortest()) {
    }
    return started;
  }

  bool try_start(const PendingRun& run, const std::optional<PendingRun>& head, Time now,
                 std::vector<Allocation>& started) {
    if (!may_wait_for_devices(run)) return false;
    Allocation allocation{run.run, choose(run), now + run.time_limit};
    if (allocation.devices.empty() || (head && !may_pass(*head, allocation))) return false;
    state_ = with_started(std::move(state_), allocation);
    started.push_back(std::move(allocation));
    return true;
  }

  // Neither a limit nor a closed host prevents its start.
  bool may_wait_for_devices(const PendingRun& run) const {
    return queue_.can_be_placed(state_, run) && !NaiveQueue::exceeded_limit(state_, run);
  }

  bool may_pass(const PendingRun& head, const Allocation& started) const {
    if (policy_.backfill_mode != BackfillMode::easy)
      return policy_.backfill_mode == BackfillMode::greedy;
    return !queue_.delays(state_, head, started);
  }

  // Not on avoided hosts, if other hosts fit.
  std::vector<model::HostDevices> choose(const PendingRun& run) const {
    const int devices = run.nodes * run.devices + run.remainder;
    const std::vector<int> free = queue_.free_devices(state_);
    std::vector<int> trusted = free;
    for (std::size_t host = 0; host < trusted.size(); ++host)
      if (host_state(state_.settings, "h" + std::to_string(host)) == model::HostState::avoided)
        trusted[host] = 0;
    Place place = Hosts(trusted, hosts_of_a_pod_, policy_.fit).place(devices);
    if (place.empty()) place = Hosts(free, hosts_of_a_pod_, policy_.fit).place(devices);
    std::vector<model::HostDevices> slices;
    for (const auto& [host, count] : place)
      slices.push_back(
          {"h" + std::to_string(host), std::vector<int>(static_cast<std::size_t>(count))});
    return slices;
  }

  SchedulingPolicy policy_;
  NaiveQueue queue_;
  int hosts_of_a_pod_;
  QueueState state_;
};

}  // namespace lockstep::sched::testing_naive
