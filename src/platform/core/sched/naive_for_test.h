// A second implementation of the policies, as they are defined for a public trace
// (docs/design/scheduler.md), as simple as possible: linear searches in arrays. Hosts have eight
// devices, pods equally many hosts. A gang of g >= 8 devices takes g / 8 empty hosts and g mod 8 on
// one more.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "platform/core/model/host_state.h"
#include "platform/core/sched/policy.h"

namespace lockstep::sched::testing_naive {

struct Job {
  int number = 0;
  int devices = 0;
  std::int64_t arrived = 0;
  std::int64_t duration = 0;
  std::int64_t limit = 0;  // at least the duration
  std::string project{};
  int priority = 0;
  int share = 100;
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
      : hosts_(hosts),
        fit_(fit),
        free_(static_cast<std::size_t>(pods * hosts), 8),
        states_(free_.size(), model::HostState::open) {}

  // Not on avoided hosts, if another host fits.
  Place place(int devices) const {
    Cluster trusted = *this;
    for (model::HostState& state : trusted.states_)
      if (state == model::HostState::avoided) state = model::HostState::closed;
    const Place place = trusted.anywhere(devices);
    return place.empty() ? anywhere(devices) : place;
  }
  // If the cluster were empty.
  bool could_hold(int devices) const {
    Cluster empty = *this;
    std::ranges::fill(empty.free_, 8);
    return !empty.place(devices).empty();
  }
  void set(int host, model::HostState state) { states_[static_cast<std::size_t>(host)] = state; }
  void take(const Place& place) {
    for (const auto& [host, devices] : place) at(host) -= devices;
  }
  void give(const Place& place) {
    for (const auto& [host, devices] : place) at(host) += devices;
  }

 private:
  int& at(int host) { return free_[static_cast<std::size_t>(host)]; }
  int at(int host) const {
    const auto i = static_cast<std::size_t>(host);
    return states_[i] == model::HostState::closed ? 0 : free_[i];
  }
  Place anywhere(int devices) const { return devices < 8 ? small(devices) : gang(devices); }
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
  std::vector<model::HostState> states_;
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
  void set(int host, model::HostState state) { cluster_.set(host, state); }
  void set(const std::map<std::string, int>& limits) { limits_ = limits; }
  // Returns the runs that start, and where.
  std::vector<Running> pass(std::int64_t now) {
    std::vector<Running> started = walk(now);
    if (!policy_.repeats_until_stable) return started;
    for (auto more = walk(now); !more.empty(); more = walk(now))
      started.insert(started.end(), more.begin(), more.end());
    return started;
  }

 private:
  std::vector<Running> walk(std::int64_t now) {
    const auto all = queue_;
    std::ranges::stable_sort(queue_, {}, [&](const Job& job) { return turn(all, job); });
    std::vector<Running> started;
    std::vector<Job> left;
    std::optional<Job> head;
    for (const Job& job : queue_) {
      const bool waits_for_its_turn =
          head && policy_.backfill_order == BackfillOrder::shortest_first;
      if (!waits_for_its_turn && try_start(job, head, now, started)) continue;
      left.push_back(job);
      if (!head && may_wait_for_devices(job)) set_head(head, job);
    }
    queue_ = left;
    if (head && policy_.backfill_order == BackfillOrder::shortest_first)
      while (start_shortest(*head, now, started)) {
      }
    return started;
  }

  bool try_start(const Job& job, const std::optional<Job>& head, std::int64_t now,
                 std::vector<Running>& started) {
    if (!may_wait_for_devices(job)) return false;
    const Place place = cluster_.place(job.devices);
    if (place.empty() || (head && !may_pass(job, place, *head, now))) return false;
    started.push_back({job, place, now + job.limit});
    cluster_.take(place);
    running_.push_back(started.back());
    return true;
  }

  // Starts the run behind the head with the smallest limit that may start; false if none may.
  bool start_shortest(const Job& head, std::int64_t now, std::vector<Running>& started) {
    const auto behind = std::ranges::find(queue_, head.number, &Job::number) + 1;
    std::vector<Job> candidates(behind, queue_.end());
    std::ranges::stable_sort(candidates, {}, &Job::limit);
    for (const Job& job : candidates) {
      if (!try_start(job, head, now, started)) continue;
      withdraw(job.number);
      return true;
    }
    return false;
  }

  // Neither a limit nor a closed host prevents its start.
  bool may_wait_for_devices(const Job& job) const {
    return cluster_.could_hold(job.devices) && may_hold(job.project, job.devices);
  }

  // May the project hold so many more devices?
  bool may_hold(const std::string& project, int devices) const {
    for (const Running& running : running_)
      if (running.job.project == project) devices += running.job.devices;
    const auto limit = limits_.find(project);
    return limit == limits_.end() || devices <= limit->second;
  }

  std::int64_t key(const Job& job) const {
    if (policy_.order == QueueOrder::shortest) return job.limit;
    return job.arrived +
           (policy_.order == QueueOrder::aged ? policy_.aging * job.limit * job.share / 100 : 0);
  }

  using Turn = std::tuple<std::int64_t, int, std::int64_t, std::int64_t, std::string, int>;
  Turn turn(const std::vector<Job>& all, const Job& job) const {
    std::int64_t latest = key(job);
    for (const Job& other : all)
      if (other.project == job.project && other.priority > job.priority)
        latest = std::max(latest, key(other));
    return {latest, -job.priority, key(job), job.arrived, job.project, job.number};
  }

  void set_head(std::optional<Job>& head, const Job& job) {
    head = job;
    if (policy_.backfill_mode != BackfillMode::easy) return;
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
    if (policy_.backfill_mode != BackfillMode::easy)
      return policy_.backfill_mode == BackfillMode::greedy;
    if (now + job.limit <= shadow_time_) return true;
    if (job.project == head.project && !may_hold(job.project, job.devices + head.devices))
      return false;
    shadow_->take(place);
    if (!shadow_->place(head.devices).empty()) return true;
    shadow_->give(place);
    return false;
  }

  SchedulingPolicy policy_;
  Cluster cluster_;
  std::vector<Job> queue_;
  std::vector<Running> running_;
  std::map<std::string, int> limits_;  // devices at once, by project
  std::optional<Cluster> shadow_;
  std::int64_t shadow_time_ = 0;
};

}  // namespace lockstep::sched::testing_naive
