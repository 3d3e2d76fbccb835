// The cost of the store and insight on the daemon's one thread: a JSON line a measurement, with the
// share of processor time, since the rest is the disk's.
//
//   bench_store FOLDER     (stores are made in it, and removed)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "platform/finding/detector.h"
#include "platform/insight/device_use.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"
#include "platform/store/budget_store.h"
#include "platform/store/sql_store.h"

namespace lockstep::bench {
namespace {

using insight::Insight;

// The two stores of a daemon.
struct Stores {
  explicit Stores(const std::filesystem::path& folder)
      : database(store::Database::open(folder / "lockstep.db").value()),
        series(insight::open_folder_series(folder / "series").value()) {}

  std::unique_ptr<store::Database> database;
  std::unique_ptr<insight::SeriesStore> series;
};

struct Durations {
  double wall = 0, processor = 0;  // seconds
};

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void add(Durations& took, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  work();
  took.processor += processor_seconds() - processor;
  took.wall += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void show(const char* what, const char* unit, double ours, const Durations& took) {
  std::printf(
      "{\"bench\": \"store\", \"case\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g, "
      "\"processor_share\": %.2f}\n",
      what, unit, ours, took.processor / took.wall);
  std::fflush(stdout);
}

const model::RunId kRun{"bench", 1};

// As an agent makes it of what a busy rank writes: lines of some eighty bytes.
std::string text_of_lines(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += format("{}step {:8} loss 3.14159265 tokens/s 123456 and so on, eighty bytes a line",
                   i > 0 ? "\n" : "", i);
  return text;
}

void store_lines(Stores& stores) {
  Insight insight(*stores.database, *stores.series);
  constexpr int kItems = 400, kLines = 800;
  std::vector<spool::TelemetryItem> items;
  for (int i = 0; i < kItems; ++i)
    items.push_back(
        {.sequence = i + 1, .kind = spool::TelemetryKind::log, .text = text_of_lines(kLines)});
  Durations took;
  add(took, [&] { (void)insight.ingest({"", {{kRun, 1}, 0}}, items).value(); });
  show("lines stored in one transaction", "lines/s", kItems * kLines / took.wall, took);
}

// A rank that prints without end: the longest call, once the oldest lines are dropped.
void overflow(Stores& stores) {
  Insight insight(*stores.database, *stores.series);
  std::vector<spool::TelemetryItem> items(
      8, {.kind = spool::TelemetryKind::log, .text = text_of_lines(800)});
  double longest = 0;
  Durations all;
  std::int64_t sequence = 400;
  for (std::int64_t bytes = 0; bytes < 1 << 30; bytes += 8 * (64 << 10)) {
    for (spool::TelemetryItem& item : items) item.sequence = ++sequence;
    Durations took;
    add(took, [&] { (void)insight.ingest({"", {{kRun, 1}, 0}}, items).value(); });
    longest = std::max(longest, took.wall);
    all.wall += took.wall;
    all.processor += took.processor;
  }
  show("longest of 2,048 calls that bring a GiB of lines", "ms", longest * 1e3, all);
  show("space of the store behind them", "MiB",
       static_cast<double>(
           std::get<0>(stores.database->rows<std::int64_t>("pragma page_count").value()[0])) /
           256,
       all);
}

// `steps` steps of `series` metrics, `at_once` steps a call.
void store_points(Stores& stores, const model::RunId& run, int steps, int series, int at_once,
                  const char* what) {
  Insight insight(*stores.database, *stores.series);
  Durations took;
  for (int step = 0; step < steps;) {
    std::vector<spool::TelemetryItem> items;
    for (int i = 0; i < at_once && step < steps; ++i, ++step) {
      spool::TelemetryItem item{
          .sequence = step + 1, .kind = spool::TelemetryKind::metrics, .step = step};
      for (int s = 0; s < series; ++s)
        item.values[format("metric-{:02}", s)] = std::sin(step * 0.001 * s) + s;
      items.push_back(std::move(item));
    }
    add(took, [&] { (void)insight.ingest({"", {{run, 1}, 0}}, items).value(); });
  }
  show(what, "points/s", 1.0 * steps * series / took.wall, took);
}

void query(Stores& stores, const model::RunId& run, const char* what) {
  Insight insight(*stores.database, *stores.series);
  std::size_t points = 0;
  Durations took;
  add(took, [&] {
    const auto page = insight.series(run).value();
    for (const auto& series : page.series) points += series.points.size();
  });
  show(format("{}, {} points in the answer", what, points).c_str(), "ms", took.wall * 1e3, took);
}

void add_run(std::int64_t number, std::vector<model::Change>& rows) {
  model::Run run;
  run.id = {"bench", number};
  run.spec.project = "bench";
  run.spec.name = "a run of some length";
  run.spec.command = {"python", "train.py", "--config", "configs/small.yaml", "--seed", "17"};
  run.spec.env = {{"PYTHONPATH", "/home/ann/src"}, {"MODE", "full"}};
  run.spec.working_folder = "/home/ann/src/model";
  run.origin = {"ann", "0123456789abcdef0123456789abcdef01234567", true};
  run.state = model::RunState::succeeded;
  run.epoch = 1;
  model::Attempt attempt;
  attempt.id = {run.id, 1};
  attempt.state = model::AttemptState::ended;
  attempt.cause = model::Cause::ok;
  model::Node node;
  node.id = {attempt.id, 0};
  node.host = "host-1";
  node.devices = {0, 1, 2, 3};
  node.state = model::NodeState::released;
  for (int number_of_rank = 0; number_of_rank < 4; ++number_of_rank) {
    model::Rank rank;
    rank.rank = rank.local_rank = number_of_rank;
    rank.state = model::RankState::exited;
    node.ranks.push_back(rank);
  }
  rows.insert(rows.end(), {run, attempt, node});
}

void load(store::Database& database) {
  store::SqlStore store(database);
  std::vector<model::Change> rows;
  for (std::int64_t number = 1; number <= 10'000; ++number) add_run(number, rows);
  (void)store.commit(rows);
  Durations took;
  add(took, [&] { (void)store.load().value(); });
  show("load of 10,000 runs with 4 ranks each", "ms", took.wall * 1e3, took);
}

// The use of devices by so many runs in a year, of 50 users in 20 projects on 3 kinds of devices: a
// day has 274 runs, and 150 sums.
void add_usage(store::Database& database, int runs) {
  store::SqlStore store(database);
  const Time year = Time(std::chrono::hours(24 * 365 * 55));
  std::vector<model::Change> rows;
  for (int number = 0; number < runs; ++number) {
    const int user = number * 7 % 50;
    const Time until = year + Duration(std::chrono::hours(24 * 365)) / runs * number;
    rows.emplace_back(budget::UsagePart{.run = format("bench/{}", number),
                                        .epoch = 1,
                                        .project = format("project-{}", user % 20),
                                        .user = format("user-{}", user),
                                        .kind = format("kind-{}", number * 11 % 3),
                                        .devices = 8,
                                        .starts = 1,
                                        .from = until - std::chrono::minutes(30),
                                        .until = until,
                                        .used = std::chrono::hours(4),
                                        .charged = std::chrono::hours(4)});
  }
  Durations took;
  add(took, [&] { LS_CHECK(store.commit(rows).has_value()); });
  show("parts of the usage stored in one transaction", "rows/s", runs / took.wall, took);
}

// Medians, of every way to divide a report by one column, and by all four.
void time_usage_reports(store::Database& database) {
  using enum store::UsageColumn;
  add_usage(database, 100'000);
  store::SqlBudgetStore budgets(database);
  const auto time = [&](const std::string& by, const store::UsageFilter& filter) {
    std::vector<double> times;
    Durations all;
    for (int i = 0; i < 11; ++i) {
      Durations took;
      add(took, [&] { LS_CHECK(!budgets.usage(filter).value().empty()); });
      times.push_back(took.wall);
      all.wall += took.wall;
      all.processor += took.processor;
    }
    std::ranges::nth_element(times, times.begin() + 5);
    show(("report of the use by 100,000 runs, by " + by).c_str(), "ms", times[5] * 1e3, all);
  };
  for (const store::UsageColumn column : {project, user, month, kind})
    time(std::string(name_of(column)), {.by = {column}});
  time("all four", {.by = {project, user, month, kind}});
  const Time half_a_day = Time(std::chrono::hours(24 * 365 * 55 + 24 * 30 + 12));
  time("month, from noon of a day on", {.since = half_a_day, .by = {month}});
}

// The telemetry of 10 s of hosts with 8 devices: 15 metrics a device, 30 a host, a sample a second.
std::vector<spool::TelemetryItem> telemetry_of_node(int node, std::int64_t round) {
  std::vector<spool::TelemetryItem> items;
  const Time begin{std::chrono::hours(24 * 365 * 56) + std::chrono::seconds(10 * round)};
  for (int second = 0; second < 10; ++second) {
    std::map<std::string, double> host, devices;
    for (int metric = 0; metric < 30; ++metric)
      host[format("host/metric{}_bytes", metric)] = 1e6 + (second * 37 + node) % 100;
    for (int device = 0; device < 8; ++device) {
      const auto set = [&](const char* name, double value) {
        devices[format("device{}/{}", device, name)] = value;
      };
      set("power_watts", 600 + (second * 13 + device + node) % 90);
      set("energy_joules_total", 600.0 * static_cast<double>(10 * round + second));
      set("utilization_percent", 97);
      for (const char* zero : {"clocks_event_reasons", "ecc_corrected_total", "lost",
                               "ecc_uncorrected_total", "xid_errors_total", "pcie_replays_total"})
        set(zero, 0);
      for (int metric = 0; metric < 6; ++metric)
        set(format("metric{}_bytes", metric).c_str(), 1e6 + (second * 7 + node) % 100);
    }
    for (auto* values : {&host, &devices})
      items.push_back({.sequence = 20 * round + 2 * second + (values == &devices ? 2 : 1),
                       .kind = spool::TelemetryKind::telemetry,
                       .step = 10 * round + second,
                       .time = begin + std::chrono::seconds(second),
                       .values = std::move(*values)});
  }
  return items;
}

// Each node is a run of its own, which delivers every 10 s.
void store_telemetry(Stores& stores) {
  constexpr int kNodes = 1000, kAtOnce = 64, kRounds = 4;
  Insight insight(*stores.database, *stores.series);
  std::vector<finding::Detector> detectors(kNodes);
  Durations ingest, sums, detection;
  for (std::int64_t round = 0; round < kRounds; ++round)
    for (int first = 0; first < kNodes; first += kAtOnce) {
      std::vector<std::vector<spool::TelemetryItem>> items;
      std::vector<insight::Delivery> deliveries;
      for (int node = first; node < std::min(kNodes, first + kAtOnce); ++node)
        items.push_back(telemetry_of_node(node, round));
      for (std::size_t i = 0; i < items.size(); ++i)
        deliveries.push_back(
            {{"", {{{"hosts", first + static_cast<std::int64_t>(i) + 1}, 1}, 0}}, items[i]});
      add(ingest, [&] {
        for (const auto& stored : insight.ingest(deliveries)) LS_CHECK(stored.has_value());
      });
      add(sums, [&] {  // once more, for other runs
        const auto added = stores.database->transaction([&]() -> Result<void> {
          for (const insight::Delivery& each : deliveries) {
            model::NodeId node = each.node.id;
            node.attempt.run.project = "again";
            TRY(insight::add_device_use(*stores.database, node, each.items, 1));
          }
          return {};
        });
        LS_CHECK(added.has_value());
      });
      add(detection, [&] {
        for (std::size_t i = 0; i < items.size(); ++i)
          for (const spool::TelemetryItem& item : items[i])
            detectors[static_cast<std::size_t>(first) + i].observe_telemetry(0, item.time,
                                                                             item.values);
      });
    }
  const auto percent = [](const Durations& took) { return 100 * took.processor / (10 * kRounds); };
  show("telemetry of 1000 hosts x 8 devices: stored, with sums", "% of a core", percent(ingest),
       ingest);
  show("... the sums of energy and idle time alone", "% of a core", percent(sums), sums);
  show("... findings", "% of a core", percent(detection), detection);
}

int measure(const std::filesystem::path& folder) {
  const auto place = folder / "bench-store";
  std::filesystem::remove_all(place);
  std::filesystem::create_directories(place);
  std::optional<Stores> stores(place);
  store_telemetry(*stores);
  time_usage_reports(*stores->database);
  load(*stores->database);
  store_lines(*stores);
  store_points(*stores, {"bench", 2}, 1000, 50, 1, "points stored, one step of 50 a call");
  query(*stores, {"bench", 2}, "50 series of 1,000 points");
  store_points(*stores, {"bench", 3}, 1'000'000, 1, 1000, "points stored, 1,000 steps of 1 a call");
  query(*stores, {"bench", 3}, "1 series of 1,000,000 points");
  overflow(*stores);
  stores.reset();
  std::filesystem::remove_all(place);
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: bench_store FOLDER\n", stderr);
    return 2;
  }
  return lockstep::bench::measure(words[1]);
}
