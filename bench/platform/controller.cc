// Measures the controller's decisions on the daemon's one thread, and the start of a daemon and a
// list with a hundred thousand ended runs in its store: a JSON line a measurement.
//
//   bench_controller FOLDER     (a store of 1.5 GB is made in it, and removed)
#include "platform/controller/controller.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/format.h"
#include "platform/core/step/decider.h"
#include "platform/core/step/starting/incremental_scheduler.h"
#include "platform/core/step/step.h"
#include "platform/host/keys.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"
#include "platform/store/sql_store.h"

namespace lockstep::bench {
namespace {

constexpr int kRuns = 10'000;
constexpr int kRunning = 50;
constexpr int kQueued = 200;
constexpr int kRanks = 4;  // of each run, on one node
const Time kNow = Time(std::chrono::hours(24 * 365 * 50));

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void show(const char* what, const char* unit, double ours) {
  std::printf("{\"bench\": \"controller\", \"case\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g}\n",
              what, unit, ours);
  std::fflush(stdout);
}

// As many hosts as runs run, each just large enough for one.
map::ClusterMap full_map() {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (int i = 0; i < kRunning; ++i) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = format("host-{}", i);
    host.address = "10.0.0.1";
    map::Island& island = host.islands.emplace_back();
    for (int number = 0; number < kRanks; ++number)
      island.devices.push_back({map::DeviceKind::gpu, number, {}, false});
  }
  return map;
}

model::Run run_numbered(int number) {
  model::Run run;
  run.id = {"bench", number};
  run.spec.project = "bench";
  run.spec.name = format("experiment-{}", number);
  run.spec.command = {"python", "train.py", "--config", "configs/large.yaml"};
  run.spec.devices = kRanks;
  run.spec.env = {{"OMP_NUM_THREADS", "8"}, {"DATA", "/data/corpus"}};
  run.spec.working_folder = "/home/ann/experiments";
  run.origin = {"ann", std::string(40, 'a'), true};
  run.submitted = run.queued = kNow - std::chrono::minutes(kRuns - number);
  run.version = 9;
  return run;
}

model::Attempt attempt_of(const model::Run& run, model::AttemptState state) {
  model::Attempt attempt;
  attempt.id = {run.id, 1};
  attempt.state = state;
  attempt.created = attempt.started.emplace(run.submitted);
  if (state == model::AttemptState::ended) {
    attempt.cause = model::Cause::ok;
    attempt.reason = "all 4 ranks exited with code 0";
    attempt.draining = attempt.ended = run.submitted + std::chrono::minutes(30);
  }
  return attempt;
}

model::Node node_of(const model::Attempt& attempt, const std::string& host,
                    model::NodeState state) {
  model::Node node;
  node.id = {attempt.id, 0};
  node.host = host;
  node.state = state;
  node.address = "10.0.0.1";
  node.master_port = node.rendezvous_port = 4000;
  node.agent_pid = 4711;
  node.last_heartbeat = kNow;
  for (int i = 0; i < kRanks; ++i) {
    node.devices.push_back(i);
    node.ranks.push_back({.rank = i, .local_rank = i, .pid = 5000 + i});
    if (state == model::NodeState::released) {
      node.ranks.back().state = model::RankState::exited;
      node.ranks.back().ended = attempt.ended;
    }
  }
  return node;
}

void add_started(std::vector<model::Change>& rows, model::Run run, int host) {
  const bool ended = host < 0;
  run.epoch = 1;
  run.started = run.submitted;
  run.state = ended ? model::RunState::succeeded : model::RunState::running;
  if (ended) run.ended = run.submitted + std::chrono::minutes(30);
  const model::Attempt attempt =
      attempt_of(run, ended ? model::AttemptState::ended : model::AttemptState::running);
  rows.emplace_back(run);
  rows.emplace_back(attempt);
  rows.emplace_back(node_of(attempt, format("host-{}", ended ? 0 : host),
                            ended ? model::NodeState::released : model::NodeState::running));
}

// Most have ended; the youngest wait.
std::vector<model::Change> many_rows(int running, int queued) {
  std::vector<model::Change> rows;
  for (int number = 1; number <= kRuns; ++number) {
    const int behind = kRuns - number;
    if (behind < queued)
      rows.emplace_back(run_numbered(number));
    else
      add_started(rows, run_numbered(number), behind < queued + running ? behind - queued : -1);
  }
  return rows;
}

model::NodeReport heartbeat_of(const model::Node& node) {
  return {.node = node.id,
          .generation = {},
          .state = model::NodeState::running,
          .address = node.address,
          .master_port = node.master_port,
          .rendezvous_port = node.rendezvous_port,
          .agent_pid = node.agent_pid,
          .message = {},
          .ranks = node.ranks};
}

void time_events() {
  model::State state;
  state.map = full_map();
  for (const model::Change& row : many_rows(kRunning, kQueued)) model::apply(state, row);
  step::Decider decider(std::move(state));
  const auto decide = [&](const model::Event& event) {
    decider.accept(decider.propose(event, kNow).value().changes);
  };
  decide(model::DaemonStarted{});  // every run gets its reason to wait
  std::vector<model::Event> heartbeats;
  for (const model::RunId& run : decider.state().open)
    if (const model::Attempt* attempt = model::live_attempt(decider.state(), run))
      heartbeats.emplace_back(heartbeat_of(*model::nodes_of(decider.state(), attempt->id).front()));
  const auto time = [&](const char* what, const std::vector<model::Event>& events, int times) {
    const double took = seconds_of([&] {
      for (int i = 0; i < times; ++i)
        for (const model::Event& event : events) decide(event);
    });
    show(what, "us", took / times / static_cast<double>(events.size()) * 1e6);
  };
  time("heartbeat, 50 of 10,000 runs run and 200 wait", heartbeats, 100);
  time("tick, the same", {model::Tick{}}, 1000);
  time("pass over the queue, the same", {model::DaemonStarted{}}, 100);
}

// The times that `queue` and `why` need: an estimate and a bound of each waiting run's start.
void time_start_times() {
  model::State state;
  state.map = full_map();
  for (const model::Change& row : many_rows(kRunning, kRuns - kRunning)) model::apply(state, row);
  step::IncrementalScheduler queue;
  LS_CHECK(step::step(queue, state, model::DaemonStarted{}, kNow).has_value());
  std::size_t asked = 0;
  show("start times of 9,950 that wait", "s",
       seconds_of([&] { asked = queue.start_times().size(); }));
  LS_CHECK(asked == kRuns - kRunning);
}

class NoEngine : public engine::Engine {
 public:
  std::string_view name() const override { return "none"; }
  void submit(engine::Gang) override {}
  void kill(const model::NodeName&) override {}
  Result<engine::EngineList> list() override { return engine::EngineList(); }
};

constexpr int kEndedRuns = 100'000;
constexpr int kEndedNodes = 10;
constexpr int kEndedRanks = 8;  // of each node

// A run of ten nodes that ended.
void add_ended(std::vector<model::Change>& rows, int number) {
  model::Run run = run_numbered(number);
  run.spec.nodes = kEndedNodes;
  run.spec.devices = kEndedRanks;
  run.submitted = run.queued = kNow - std::chrono::minutes(kEndedRuns - number);
  run.epoch = 1;
  run.started = run.submitted;
  run.state = number % 100 ? model::RunState::succeeded : model::RunState::failed;
  run.ended = run.submitted + std::chrono::minutes(30);
  run.request_id = format("request-{}", number);
  const model::Attempt attempt = attempt_of(run, model::AttemptState::ended);
  rows.emplace_back(run);
  rows.emplace_back(attempt);
  for (int index = 0; index < kEndedNodes; ++index) {
    model::Node node = node_of(attempt, format("host-{}", index), model::NodeState::released);
    node.id.index = index;
    node.ranks.clear();
    for (int i = 0; i < kEndedRanks; ++i)
      node.ranks.push_back({.rank = index * kEndedRanks + i,
                            .local_rank = i,
                            .pid = 5000 + i,
                            .state = model::RankState::exited,
                            .ended = attempt.ended});
    rows.emplace_back(std::move(node));
  }
}

void fill(const std::filesystem::path& file) {
  auto database = store::Database::open(file).value();
  store::SqlStore store(*database);
  constexpr int kAtOnce = 500;
  for (int first = 1; first <= kEndedRuns; first += kAtOnce) {
    std::vector<model::Change> rows;
    for (int number = first; number < first + kAtOnce; ++number) add_ended(rows, number);
    LS_CHECK(store.commit(rows).has_value());
  }
}

// The median of several calls.
double median_seconds(const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < 11; ++i) times.push_back(seconds_of(work));
  std::ranges::nth_element(times, times.begin() + 5);
  return times[5];
}

void time_lists(controller::Controller& controller, store::Database& database,
                const std::filesystem::path& folder) {
  const auto series = insight::open_folder_series(folder / "series").value();
  insight::Insight insight(database, *series);
  const auto time = [&](const char* what, const model::RunFilter& filter, std::size_t least) {
    show(what, "ms", 1e3 * median_seconds([&] {
                       std::vector<model::RunId> ids;
                       for (const model::Run& run : controller.list_runs(filter).value())
                         ids.push_back(run.id);
                       LS_CHECK(ids.size() == least && insight.summaries(ids).has_value());
                     }));
  };
  time("list of 50 of 100,000 ended runs", {}, 50);
  time("the same of those that failed", {.state = model::RunState::failed}, 50);
  time("the same of a project without runs", {.project = "none"}, 0);
  show("a run of 10 nodes of 8 ranks that ended long ago is read", "ms",
       1e3 * seconds_of([&] {
         LS_CHECK(controller.fetch({"bench", 1}).has_value());
         LS_CHECK(controller.state().runs.contains({"bench", 1}));
       }));
}

void time_start(const std::filesystem::path& folder) {
  fill(folder / "lockstep.db");
  NoEngine engine;
  const SystemClock clock;
  store::HistoryFile history(folder / "stores.json");
  const MonotonicClock steady;
  std::unique_ptr<store::Database> database;
  std::unique_ptr<store::SqlStore> store;
  std::unique_ptr<controller::Controller> controller;
  show("start of a daemon with 100,000 ended runs of 10 nodes of 8 ranks", "s", seconds_of([&] {
         database = store::Database::open(folder / "lockstep.db").value();
         store = std::make_unique<store::SqlStore>(*database);
         controller =
             controller::Controller::open({.store = *store,
                                           .history = history,
                                           .engine = engine,
                                           .clock = clock,
                                           .steady = steady,
                                           .keys = host::Keys::open(folder / "home").value(),
                                           .map = full_map(),
                                           .home = folder / "home"})
                 .value();
       }));
  time_lists(*controller, *database, folder);
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "bench_controller FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = std::filesystem::path(argv[1]) / "controller";
  lockstep::bench::time_events();
  lockstep::bench::time_start_times();
  lockstep::bench::time_start(folder);
  std::filesystem::remove_all(folder);
}
