// The cost of the scheduling pass, from nothing and after one event, on a full cluster with many
// waiting runs, and on one ten times as large: a JSON line a measurement.
#include "platform/core/sched/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/random.h"
#include "platform/core/sched/pass.h"

namespace lockstep::bench {
namespace {

constexpr int kHostsInAPod = 16;
constexpr int kDevices = 8;  // of a host
constexpr int kEvents = 200;
constexpr int kRounds = 21;
constexpr int kTimes = 5;  // of the smaller one, in a round
const Time kNow = Time(std::chrono::hours(24 * 365 * 50));

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void show(const std::string& what, const char* unit, double ours) {
  std::printf("{\"bench\": \"scheduler\", \"case\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g}\n",
              what.c_str(), unit, ours);
  std::fflush(stdout);
}

map::ClusterMap map_of(int pods) {
  map::ClusterMap map;
  for (int p = 0; p < pods; ++p) {
    map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    for (int h = 0; h < kHostsInAPod; ++h) {
      map::Host& host = leaf.hosts.emplace_back();
      host.id = format("host-{}-{}", p, h);
      host.islands.emplace_back().devices.resize(kDevices);
    }
  }
  return map;
}

// As public traces have them: mostly of one device, a few gangs; limits from minutes to days.
sched::PendingRun any_want(Random& random, int number) {
  constexpr int kSizes[] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 128};
  const int size = kSizes[random.below(std::size(kSizes))];
  return {.run = {"bench", number},
          .nodes = std::max(1, size / kDevices),
          .devices = std::min(size, kDevices),
          .arrived = kNow - std::chrono::seconds(random.below(1'000'000)),
          .time_limit = std::chrono::minutes(5) * (1 << random.below(11))};
}

// A full cluster: the runs on it, and as many waiting runs.
struct Load {
  Load(int pods, int waiting) : map(map_of(pods)) {
    sched::Scheduler scheduler(map, sched::policies::kOurs);
    std::vector<sched::PendingRun> pending_runs;
    for (int number = 1; std::ssize(queue) < waiting; ++number) {
      const sched::PendingRun pending = any_want(random, number);
      pending_runs.push_back(pending);
      scheduler.add_pending(pending);
      if (number % waiting != 0) continue;
      for (sched::Placement& start : scheduler.schedule(kNow).placements) {
        const sched::PendingRun& begun =
            pending_runs[static_cast<std::size_t>(start.run.number - 1)];
        const Duration run_for = begun.time_limit * static_cast<int>(1 + random.below(100)) / 100;
        held.push_back({start.run, std::move(start.devices), kNow + run_for});
      }
      queue.clear();
      for (const sched::WaitingRun& run : scheduler.waiting())
        queue.push_back(pending_runs[static_cast<std::size_t>(run.run.number - 1)]);
    }
    queue.resize(static_cast<std::size_t>(waiting));
    std::ranges::sort(queue, {}, &sched::PendingRun::run);  // in the controller's order
    std::ranges::sort(held, {}, &sched::Allocation::run);
  }

  Random random{7};
  map::ClusterMap map;
  std::vector<sched::PendingRun> queue;
  std::vector<sched::Allocation> held;
};

double from_nothing(const Load& load) {
  return seconds_of(
      [&] { sched::schedule_once(load.map, sched::policies::kOurs, load.queue, load.held, kNow); });
}

// One run ends or one comes, and a decision follows.
double after_one_event(Load& load) {
  sched::Scheduler scheduler(load.map, sched::policies::kOurs);
  for (const sched::Allocation& allocation : load.held) scheduler.add_allocation(allocation);
  for (const sched::PendingRun& pending : load.queue) scheduler.add_pending(pending);
  scheduler.schedule(kNow);
  std::vector<double> times;
  for (int event = 0; event < kEvents; ++event) {
    const sched::PendingRun pending = any_want(load.random, 10'000'000 + event);
    const model::RunId ending = load.held[load.random.below(load.held.size())].run;
    times.push_back(seconds_of([&] {
      if (event % 2 == 0)
        scheduler.add_pending(pending);
      else
        scheduler.remove_allocation(ending);
      scheduler.schedule(kNow + std::chrono::seconds(event));
    }));
    if (event % 2 == 1)
      std::erase_if(load.held,
                    [&](const sched::Allocation& allocation) { return allocation.run == ending; });
  }
  double sum = 0;
  for (double time : times) sum += time;
  return sum / kEvents;
}

void show_load(Load& load, double whole) {
  const auto where = format("{} devices, {} runs hold, {} wait",
                            std::ssize(load.map.pods) * kHostsInAPod * kDevices, load.held.size(),
                            load.queue.size());
  const double event = after_one_event(load);
  show("pass from nothing: " + where, "ms", whole * 1e3);
  show("pass after one event: " + where, "us", event * 1e6);
  show("from nothing / after one event: " + where, "x", whole / event);
}

// In turns: a machine that is shared has fast and slow seconds.
void measure() {
  Load once(80, 10'000), tenfold(800, 100'000);
  std::vector<double> times_once, times_tenfold;
  for (int round = 0; round < kRounds; ++round) {
    for (int part = 0; part < kTimes; ++part) times_once.push_back(from_nothing(once));
    times_tenfold.push_back(from_nothing(tenfold));
  }
  show_load(once, median(times_once));
  show_load(tenfold, median(times_tenfold));
  show("from nothing, ten times as many of both / once", "x",
       median(times_tenfold) / median(times_once));
}

}  // namespace
}  // namespace lockstep::bench

int main() { lockstep::bench::measure(); }
