// The policies once more, as they are defined for a public trace (docs/design/scheduler.md), in the
// plainest way: arrays that are searched from one end to the other. Hosts have eight devices, pods
// alike many hosts; a gang of g >= 8 devices takes g / 8 empty hosts and g mod 8 on one more.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "platform/core/sched/policy.h"

namespace lockstep::testing_naive {

struct Job {
  int number = 0;
  int devices = 0;
  std::int64_t arrived = 0;
  std::int64_t duration = 0;
  std::int64_t limit = 0;  // at least the duration
};

using Place = std::vector<std::pair<int, int>>;  // host, devices

struct Running {
  Job job;
  Place place;
  std::int64_t expected_end = 0;
};

class Cluster {
 public:
  Cluster(int pods, int hosts, Fit fit)
      : hosts_(hosts), fit_(fit), free_(static_cast<std::size_t>(pods * hosts), 8) {}

  Place place(int devices) const { return devices < 8 ? small(devices) : gang(devices); }
  void take(const Place& place) {
    for (const auto& [host, devices] : place) at(host) -= devices;
  }
  void give(const Place& place) {
    for (const auto& [host, devices] : place) at(host) += devices;
  }

 private:
  int& at(int host) { return free_[static_cast<std::size_t>(host)]; }
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

  int hosts_;
  Fit fit_;
  std::vector<int> free_;
};

class Simulator {
 public:
  Simulator(int pods, int hosts, const SchedulingPolicy& policy)
      : policy_(policy), cluster_(pods, hosts, policy.fit) {}

  void arrive(const Job& job) { queue_.push_back(job); }
  void expect(int number, std::int64_t end) {
    for (Running& running : running_)
      if (running.job.number == number) running.expected_end = end;
  }
  void withdraw(int number) {
    std::erase_if(queue_, [&](const Job& job) { return job.number == number; });
  }
  void end(int number) {
    const auto found = std::ranges::find(running_, number,
                                         [](const Running& running) { return running.job.number; });
    cluster_.give(found->place);
    running_.erase(found);
  }
  // Who starts, and where.
  std::vector<Running> pass(std::int64_t now) {
    std::ranges::stable_sort(queue_, {}, [&](const Job& job) { return key(job); });
    std::vector<Running> started;
    std::vector<Job> left;
    std::optional<Job> head;
    for (const Job& job : queue_) {
      const Place place = cluster_.place(job.devices);
      if (!place.empty() && (!head || may_pass(job, place, *head, now))) {
        started.push_back({job, place, now + job.limit});
        cluster_.take(place);
        running_.push_back(started.back());
        continue;
      }
      left.push_back(job);
      if (!head) set_head(head, job);
    }
    queue_ = left;
    return started;
  }

 private:
  std::tuple<std::int64_t, std::int64_t, int> key(const Job& job) const {
    std::int64_t first = job.arrived;
    if (policy_.order == Order::shortest) first = job.limit;
    if (policy_.order == Order::aged) first += policy_.aging * job.limit;
    return {first, job.arrived, job.number};
  }

  void set_head(std::optional<Job>& head, const Job& job) {
    head = job;
    if (policy_.passing != Passing::backfill) return;
    shadow_.emplace(cluster_);
    std::map<std::int64_t, std::vector<Place>> ends;
    for (const Running& running : running_) ends[running.expected_end].push_back(running.place);
    for (const auto& [end, places] : ends) {
      shadow_time_ = end;
      for (const Place& place : places) shadow_->give(place);
      if (!shadow_->place(job.devices).empty()) return;
    }
  }

  bool may_pass(const Job& job, const Place& place, const Job& head, std::int64_t now) {
    if (policy_.passing != Passing::backfill) return policy_.passing == Passing::anybody;
    if (now + job.limit <= shadow_time_) return true;
    shadow_->take(place);
    if (!shadow_->place(head.devices).empty()) return true;
    shadow_->give(place);
    return false;
  }

  SchedulingPolicy policy_;
  Cluster cluster_;
  std::vector<Job> queue_;
  std::vector<Running> running_;
  std::optional<Cluster> shadow_;
  std::int64_t shadow_time_ = 0;
};

}  // namespace lockstep::testing_naive
