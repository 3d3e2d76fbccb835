// The cost of budgets in the controller's decisions: the same events with a budget for each of
// 10,000 projects, and without any. Both take turns, because a machine that is shared has fast and
// slow seconds: a JSON line a measurement.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "platform/core/step/decider.h"

namespace lockstep::bench {
namespace {

constexpr int kAccounts = 10'000;
constexpr int kHosts = 500;
constexpr int kDevices = 4;  // of a host, and of a run
constexpr int kQueued = 1'000;
constexpr int kRounds = 300;
const Time kNow = Time(std::chrono::hours(24 * 365 * 50));

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void show(const std::string& what, const char* unit, double ours) {
  std::printf("{\"bench\": \"budgets\", \"case\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g}\n",
              what.c_str(), unit, ours);
  std::fflush(stdout);
}

map::ClusterMap map_of_hosts() {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (int i = 0; i < kHosts; ++i) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = format("host-{}", i);
    host.address = "10.0.0.1";
    host.labels = {{"device-kind", i % 2 == 0 ? "h100" : "a100"}};
    map::Island& island = host.islands.emplace_back();
    for (int number = 0; number < kDevices; ++number)
      island.devices.push_back({map::DeviceKind::gpu, number, {}, false});
  }
  return map;
}

enum class Accounts { none, all };

model::State state_with(Accounts accounts) {
  model::State state;
  state.map = map_of_hosts();
  if (accounts == Accounts::none) return state;
  for (const auto& [kind, weight] : {std::pair("h100", 400), std::pair("a100", 200)})
    model::apply(state, budget::Rate{.id = kind, .weight_percent = weight});
  for (int i = 0; i < kAccounts; ++i) {
    const auto amount = std::chrono::hours(100'000);
    model::apply(state, budget::Budget{.id = format("project-{}", i),
                                       .available = amount,
                                       .grants = {{.ends = kNow + std::chrono::hours(1000 + i),
                                                   .granted = amount,
                                                   .left = amount}}});
  }
  return state;
}

// A full cluster, and runs that wait; each run is of another project than the one before.
class Cluster {
 public:
  explicit Cluster(Accounts accounts, bool one_project)
      : one_project_(one_project), decider_(state_with(accounts)) {
    decide(model::DaemonStarted{});
    for (int i = 0; i < kHosts + kQueued; ++i) submit();
    LS_CHECK(decider_.state().live.size() == kHosts);
  }

  double tick() {
    return seconds_of([&] { decide(model::Tick{}); });
  }
  double heartbeat() {
    return seconds_of([&] { decide(report_of(*decider_.state().live.begin())); });
  }
  double submit() {
    const int number = submitted_++;
    model::SubmitRun event;
    event.spec.project = format("project-{}", one_project_ ? 0 : number * 7 % kAccounts);
    event.spec.name = format("experiment-{}", number);
    event.spec.command = {"python", "train.py"};
    event.spec.devices = kDevices;
    event.origin.user = format("user-{}", number % 100);
    return seconds_of([&] { decide(event); });
  }
  // A run ends, and the next one starts on its devices.
  double end_and_start() {
    const model::AttemptId first = *decider_.state().live.begin();
    const std::size_t live = decider_.state().live.size();
    auto end = report_of(first);
    for (model::Rank& rank : end.ranks) rank.state = model::RankState::exited;
    return seconds_of([&] {
      decide(end);
      decide(model::NodeSeen{{first, 0}, {.phase = model::NodePhase::gone}});
      LS_CHECK(decider_.state().live.size() == live);
    });
  }

 private:
  void decide(const model::Event& event) {
    now_ += std::chrono::milliseconds(1);
    decider_.accept(decider_.propose(event, now_).value().changes);
  }

  model::NodeReport report_of(const model::AttemptId& attempt) const {
    model::NodeReport report{.node = {attempt, 0},
                             .generation = {},
                             .state = model::NodeState::running,
                             .address = "10.0.0.1",
                             .master_port = 4000,
                             .rendezvous_port = 4001,
                             .agent_pid = 4711,
                             .message = {},
                             .ranks = {}};
    for (int i = 0; i < kDevices; ++i)
      report.ranks.push_back({.rank = i, .local_rank = i, .pid = 5000 + i});
    return report;
  }

  bool one_project_;
  Time now_ = kNow;
  int submitted_ = 0;
  step::Decider decider_;
};

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

void compare(const std::string& where, bool one_project) {
  struct Case {
    const char* what;
    double (Cluster::*work)();
    std::array<std::vector<double>, 2> times{};
  };
  std::array<Case, 4> cases{{{"a tick", &Cluster::tick},
                             {"a heartbeat", &Cluster::heartbeat},
                             {"a submission", &Cluster::submit},
                             {"a run ends and the next one starts", &Cluster::end_and_start}}};
  std::array<Cluster, 2> clusters{Cluster(Accounts::none, one_project),
                                  Cluster(Accounts::all, one_project)};
  for (int round = 0; round < kRounds; ++round)
    for (Case& each : cases)
      for (std::size_t i = 0; i < clusters.size(); ++i)
        each.times[i].push_back((clusters[i].*each.work)());
  for (Case& each : cases) {
    const double without = median(each.times[0]), with = median(each.times[1]);
    show(format("{}, {}, no budgets", each.what, where), "us", without * 1e6);
    show(format("{}, {}, 10,000 budgets", each.what, where), "us", with * 1e6);
    show(format("{}, {}, with / without", each.what, where), "x", with / without);
  }
}

}  // namespace
}  // namespace lockstep::bench

int main() {
  lockstep::bench::compare("runs of many projects", false);
  lockstep::bench::compare("all runs of one project", true);
}
