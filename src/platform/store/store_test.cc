#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/store/cleanup_tables.h"
#include "platform/store/memory_store_for_test.h"
#include "platform/store/migrations.h"
#include "platform/store/run_list.h"
#include "platform/store/sql_store.h"
#include "platform/store/tables_copy.h"

namespace lockstep::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A run, its attempt and a node, with a value in every field.
model::Run full_run() {
  model::Run run;
  run.id = {"demo", 3};
  run.spec.project = "demo";
  run.spec.name = "it's \"quoted\"; drop table runs";
  run.spec.command = {"python", "-c", "print('\xc3\xa9')"};
  run.spec.nodes = 2;
  run.spec.env = {{"A", "b"}};
  run.spec.timeout = Duration(90'000'001);
  run.origin = {"ann", "abc123", true};
  run.state = model::RunState::running;
  run.reason = "line";
  run.version = 7;
  run.epoch = 2;
  run.submitted = Time(Duration(1'790'000'000'000'001));
  run.queued = run.submitted + Duration(3);
  run.started = run.submitted + Duration(1);
  run.time_used = Duration(5);
  run.user_exits = 1;
  run.losses = 2;
  run.stop_requested = true;
  run.not_before = run.submitted + Duration(2);
  run.request_id = "0f3c";
  run.awaits_budget = std::chrono::minutes(7);
  run.spec.run_class = model::RunClass::debug;
  run.spec.after = {"demo/1"};
  run.spec.not_before = run.submitted;
  run.priority = -5;
  run.held = "by ann";
  run.awaits_dependencies = true;
  run.audit = {{run.submitted, "ann", "held"}};
  run.moves = 2;
  run.fair_share_used = 150;
  run.generation = "0f5c";
  run.launcher = "torchrun";
  run.project_kind = model::ProjectKind::personal;
  run.tags = {{"stage", "it's \"final\""}};
  run.note = "two\nlines";
  return run;
}
model::Attempt full_attempt() {
  model::Attempt attempt;
  attempt.id = {{"demo", 3}, 2};
  attempt.state = model::AttemptState::draining;
  attempt.cause = model::Cause::rank_lost;
  attempt.reason = "rank 3 on host b was killed by signal 9 (SIGKILL)";
  attempt.created = Time(Duration(10));
  attempt.started = Time(Duration(20));
  attempt.draining = Time(Duration(30));
  attempt.last_checkpoint = Time(Duration(25));
  attempt.last_checkpoint_step = 100;
  attempt.move_destination = {{"a", {1, 3}}};
  attempt.generation = "1a2b3c4d5e6f7a8b";
  attempt.engine = "slurm";
  attempt.is_placed = false;
  attempt.lease = std::chrono::minutes(30);
  attempt.admitted = Time(Duration(15));
  attempt.charge = {.rate_percent = 800,
                    .held = std::chrono::hours(3),
                    .from = Time(Duration(10)),
                    .until = Time(Duration(60))};
  return attempt;
}
model::Node full_node() {
  model::Node node;
  node.id = {{{"demo", 3}, 2}, 1};
  node.host = "b";
  node.devices = {0, 2};
  node.state = model::NodeState::running;
  node.address = "10.0.0.2";
  node.master_port = 1;
  node.rendezvous_port = 2;
  node.agent_pid = 5'000'000'000;
  node.agents = {{"a1", "node-3", Time(Duration(19)), 0}, {"b2", "node-4", Time(Duration(21)), 7}};
  node.handle = "4711.3";
  node.incarnation = "a1";
  node.pending_reason = "Resources";
  node.stop_reason = model::StopReason::signal;
  node.message = "hm";
  node.nccl_network = "NCCL uses efa";
  node.last_heartbeat = Time(Duration(25));
  node.last_progress = Time(Duration(23));
  node.unreachable_since = Time(Duration(21));
  node.kill_requested_at = Time(Duration(26));
  node.ranks = {{2, 0, 77, model::RankState::running, 0, false, std::nullopt, 120,
                 Time(Duration(23)), model::Activity::stopped, Time(Duration(22)),
                 report::Fault::timed_out, 1, "waited for rank 1", 2},
                {3, 1, 78, model::RankState::killed, 9, true, Time(Duration(24))}};
  return node;
}
map::Host full_facts(int devices) {
  map::Host host;
  host.id = "b";
  host.name = "gpu-b";
  host.address = "10.0.0.2";
  host.memory = 64_GiB;
  host.cores = 8;
  host.to_leaf.latency = Duration(5);
  for (int number = 0; number < devices; ++number)
    host.islands.emplace_back().devices.push_back(
        {map::DeviceKind::gpu, number, 80_GiB, false, format("GPU-{}", number)});
  return host;
}
model::HostRow full_host() {
  return {"b",
          model::HostState::drained,
          "by ann: loud",
          Time(Duration(7)),
          {{Time(Duration(7)), "", "x"}},
          {{"demo/1", Time(Duration(8))}},
          "is silent",
          "east",
          full_facts(2),
          full_facts(3),
          7,
          std::string(64, 'c'),
          "3f9c",
          Time(Duration(6)),
          {{"rack", "a3"}}};
}
std::vector<model::Change> all_rows() {
  return {full_run(),
          full_attempt(),
          full_node(),
          full_host(),
          model::LimitRow{{model::LimitScope::user, "ann"}, 16},
          model::LimitRow{{model::LimitScope::project, "ann"}, std::nullopt, 3, Duration(77)},
          budget::Budget{
              .id = "demo",
              .limited = false,
              .available = std::chrono::hours(5),
              .held = std::chrono::hours(3),
              .spent = std::chrono::hours(9),
              .grants = {{Time(Duration(99)), std::chrono::hours(20), std::chrono::hours(8)}}},
          budget::Rate{.id = "h100", .weight_percent = 400},
          budget::Bucket{.id = "ann",
                         .level = Duration(11),
                         .time = Time(Duration(12)),
                         .held = Duration(13),
                         .spent = Duration(14)},
          model::GivenUpNode{.id = {{{"demo", 1}, 1}, 1},
                             .generation = "3f9c0a5e7d21b864",
                             .engine = "hosts",
                             .devices = {"b", {0, 1}},
                             .since = Time(Duration(50)),
                             .last_call = Time(Duration(20)),
                             .gone_after = Duration(700)},
          model::MeasuredRow{{.fabric = "tcp over eth1",
                              .within_host = {},
                              .between_hosts = map::MeasuredLevel{12.5, 3, 9.4},
                              .reduction_gbyte_per_second = 11.2}},
          model::StoreRow{"3f9c0a5e7d21b864", 12}};
}

void expect_same(const model::State& a, const model::State& b) {
  EXPECT_EQ(a.runs, b.runs);
  EXPECT_EQ(a.attempts, b.attempts);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.open, b.open);
  EXPECT_EQ(a.conditional, b.conditional);
  EXPECT_EQ(a.requests, b.requests);
  EXPECT_EQ(a.hosts, b.hosts);
  EXPECT_EQ(a.limits, b.limits);
  EXPECT_EQ(a.budgets, b.budgets);
  EXPECT_EQ(a.rates, b.rates);
  EXPECT_EQ(a.grant_ends, b.grant_ends);
  EXPECT_EQ(a.given_up, b.given_up);
  EXPECT_EQ(a.measured, b.measured);
  EXPECT_EQ(a.store, b.store);
}

class StoreTest : public ::testing::Test {
 protected:
  fs::path file() const { return folder_ / "a=b c" / "lockstep.db"; }
  std::unique_ptr<Database> open() { return Database::open(file()).value(); }

  const TemporaryFolder folder_;
};

TEST_F(StoreTest, WhatWasCommittedIsThereAfterReopening) {
  const auto rows = all_rows();
  model::State expected;
  for (const model::Change& row : rows) model::apply(expected, row);
  {
    auto database = open();
    ASSERT_TRUE(SqlStore(*database).commit(rows));
  }
  auto database = open();
  expect_same(SqlStore(*database).load().value(), expected);
}

// Each daemon finds the rest itself.
TEST_F(StoreTest, OfAnOrphanOnlyThatItIsToEndIsKeptUntilItIsGone) {
  auto database = open();
  SqlStore store(*database);
  model::Orphan ends{.id = {"1a2b3c4d5e6f7a8b", {{{"demo", 3}, 2}, 1}}, .devices = {"a", {0}}};
  ends.stop_requested_at = Time(Duration(25));
  model::Orphan goes_on{.id = {"", {{{"demo", 4}, 1}, 0}}, .devices = {"a", {1}}};
  ASSERT_TRUE(store.commit(std::vector<model::Change>{ends, goes_on}));
  const model::Orphan kept{.id = ends.id, .stop_requested_at = ends.stop_requested_at};
  EXPECT_EQ(store.load().value().orphans,
            (std::map<model::NodeName, model::Orphan>{{ends.id, kept}}));
  ends.terminated = true;
  ASSERT_TRUE(store.commit(std::vector<model::Change>{ends}));
  EXPECT_TRUE(store.load().value().orphans.empty());
}

TEST_F(StoreTest, ARowIsReplacedByItsSuccessor) {
  auto database = open();
  SqlStore store(*database);
  ASSERT_TRUE(store.commit(all_rows()));
  auto run = full_run();
  run.state = model::RunState::succeeded;
  run.ended = Time(Duration(40));
  run.not_before.reset();
  auto node = full_node();
  node.ranks[0].state = model::RankState::exited;
  node.kill_requested_at.reset();
  const std::vector<model::Change> later = {run, node};
  ASSERT_TRUE(store.commit(later));
  const auto loaded = store.find_run(run.id).value().value();
  EXPECT_EQ(loaded.run, run);
  EXPECT_THAT(loaded.nodes, ElementsAre(node));
}

TEST_F(StoreTest, AProbeChangesNothing) {
  auto database = open();
  SqlStore store(*database);
  ASSERT_TRUE(store.commit(all_rows()));
  const auto before = store.load().value();
  EXPECT_TRUE(store.check_writable());
  expect_same(store.load().value(), before);
  EXPECT_EQ(schema_version_of(*database).value(), schema_version_latest());
  ASSERT_TRUE(database->execute("pragma query_only = on"));
  EXPECT_FALSE(store.check_writable());
}

TEST_F(StoreTest, ACommitThatFailsHalfWayChangesNothing) {
  auto database = open();
  SqlStore store(*database);
  auto stray = full_node();
  stray.id.attempt.epoch = 9;  // an attempt that does not exist
  auto rows = all_rows();
  rows.push_back(stray);
  ASSERT_FALSE(store.commit(rows));
  EXPECT_TRUE(store.load().value().runs.empty());
  EXPECT_TRUE(store.commit(all_rows()));
}

TEST_F(StoreTest, AHostThatWasRemovedHasNoFactsAndKeepsTheNumberOfItsCredential) {
  auto database = open();
  SqlStore store(*database);
  ASSERT_TRUE(store.commit(all_rows()));
  model::HostRow removed = full_host();
  removed.facts.reset();
  removed.next_facts.reset();
  removed.claim.clear();
  ++removed.credential;
  ASSERT_TRUE(store.commit(std::vector<model::Change>{removed}));
  EXPECT_EQ(store.load().value().hosts.at("b"), removed);
}

TEST_F(StoreTest, AHostThatIsNamedAfterItsNodeWasMadeIsKept) {
  auto database = open();
  SqlStore store(*database);
  model::Node node = full_node();
  node.host.clear();
  ASSERT_TRUE(store.commit(all_rows()));
  ASSERT_TRUE(store.commit(std::vector<model::Change>{node}));
  EXPECT_EQ(store.load().value().nodes.at(node.id).host, "");
  ASSERT_TRUE(store.commit(std::vector<model::Change>{full_node()}));
  EXPECT_EQ(store.load().value().nodes.at(node.id).host, "b");
}

TEST_F(StoreTest, AGivenUpNodeIsForgottenOnceItIsGone) {
  auto database = open();
  SqlStore store(*database);
  ASSERT_TRUE(store.commit(all_rows()));
  model::GivenUpNode node = store.load().value().given_up.begin()->second;
  node.gone = true;
  ASSERT_TRUE(store.commit(std::vector<model::Change>{node}));
  EXPECT_TRUE(store.load().value().given_up.empty());
}

TEST_F(StoreTest, BothStoresAgree) {
  auto database = Database::in_memory().value();
  SqlStore sql(*database);
  MemoryStore memory;
  ASSERT_TRUE(sql.commit(all_rows()));
  ASSERT_TRUE(memory.commit(all_rows()));
  expect_same(sql.load().value(), memory.load().value());
}

model::Run ended_run(int number) {
  model::Run run;
  run.id = {"demo", number};
  run.spec.project = "demo";
  run.spec.nodes = 2;
  run.spec.devices = 3;
  run.spec.remainder = 1;
  run.state = number % 2 ? model::RunState::failed : model::RunState::succeeded;
  run.submitted = Time(std::chrono::hours(24 * 20'000 + number));
  run.ended = run.submitted + std::chrono::minutes(1);
  run.time_used = std::chrono::seconds(10);
  run.request_id = format("request-{}", number);
  return run;
}

TEST_F(StoreTest, OnlyOpenRunsAndThoseTheyAwaitAreLoadedWithTheTotalsOfAll) {
  auto database = open();
  SqlStore sql(*database);
  MemoryStore memory;
  for (Store* store : std::initializer_list<Store*>{&sql, &memory}) {
    std::vector<model::Change> rows = all_rows();  // demo/3, which awaits demo/1
    for (int number : {1, 2, 4, 5}) rows.emplace_back(ended_run(number));
    ASSERT_TRUE(store->commit(rows));
    const model::State state = store->load().value();
    EXPECT_EQ(state.runs.size(), 2u);
    EXPECT_TRUE(state.runs.contains({"demo", 1}));
    EXPECT_EQ(state.numbers.at("demo"), 5);
    std::int64_t used = 0;
    for (const auto& [day, seconds] : state.usage.at("demo").used_by_day) used += seconds;
    EXPECT_EQ(used, 4 * 7 * 10);
    EXPECT_EQ(store->find_request("request-4").value(), (model::RunId{"demo", 4}));
    EXPECT_EQ(store->find_request("other").value(), std::nullopt);
    EXPECT_EQ(store->find_run({"demo", 5}).value()->run, ended_run(5));
    EXPECT_EQ(store->find_run({"demo", 6}).value(), std::nullopt);
    EXPECT_THAT(store->find_run(full_run().id).value()->nodes, ElementsAre(full_node()));
  }
}

TEST_F(StoreTest, RunsAreListedNewestFirstByProjectAndState) {
  auto database = open();
  SqlStore sql(*database);
  MemoryStore memory;
  for (Store* store : std::initializer_list<Store*>{&sql, &memory}) {
    std::vector<model::Change> rows;
    for (int number = 1; number <= 5; ++number) rows.emplace_back(ended_run(number));
    rows.emplace_back(ended_run(7));
    std::get<model::Run>(rows.back()).id.project = "other";
    ASSERT_TRUE(store->commit(rows));
    const auto numbers = [&](const model::RunFilter& filter) {
      std::vector<std::int64_t> found;
      for (const model::Run& run : store->list_runs(filter).value()) found.push_back(run.id.number);
      return found;
    };
    EXPECT_THAT(numbers({}), ElementsAre(7, 5, 4, 3, 2, 1));
    EXPECT_THAT(numbers({.project = "demo", .limit = 2}), ElementsAre(5, 4));
    EXPECT_THAT(numbers({.project = "demo", .state = model::RunState::succeeded}),
                ElementsAre(4, 2));
  }
}

TEST_F(StoreTest, RunsAreListedByTag) {
  auto database = open();
  SqlStore sql(*database);
  MemoryStore memory;
  for (Store* store : std::initializer_list<Store*>{&sql, &memory}) {
    std::vector<model::Change> rows;
    for (int number = 1; number <= 4; ++number) {
      auto run = ended_run(number);
      if (number > 1) run.tags = {{"stage", number == 3 ? "a'b" : "x"}, {"n", "1"}};
      rows.emplace_back(run);
    }
    ASSERT_TRUE(store->commit(rows));
    const auto numbers = [&](const model::RunFilter& filter) {
      std::vector<std::int64_t> found;
      for (const model::Run& run : store->list_runs(filter).value()) found.push_back(run.id.number);
      return found;
    };
    EXPECT_THAT(numbers({.tag = model::TagFilter{"stage"}}), ElementsAre(4, 3, 2));
    EXPECT_THAT(numbers({.tag = model::TagFilter{"stage", "a'b"}}), ElementsAre(3));
    EXPECT_THAT(numbers({.tag = model::TagFilter{"x"}}), ElementsAre());
    EXPECT_THAT(numbers({.project = "demo", .tag = model::TagFilter{"stage", "x"}, .limit = 1}),
                ElementsAre(4));
    EXPECT_THAT(numbers({.projects = {{"demo"}}, .tag = model::TagFilter{"n", "1"}}),
                ElementsAre(4, 3, 2));
  }
}

TEST_F(StoreTest, RunsAreListedByUserAndFromAPlaceInTheList) {
  auto database = open();
  SqlStore sql(*database);
  MemoryStore memory;
  for (Store* store : std::initializer_list<Store*>{&sql, &memory}) {
    std::vector<model::Change> rows;
    for (int number = 1; number <= 6; ++number) {
      auto run = ended_run(number);
      run.origin.user = number % 2 == 0 ? "ann" : "bob";
      run.submitted = Time(std::chrono::seconds(number / 3));  // 0 0 1 1 1 2
      if (number == 4) run.tags = {{"good", "yes"}};
      rows.emplace_back(run);
      run.id.project = "other";
      run.request_id = "";
      rows.emplace_back(run);
    }
    ASSERT_TRUE(store->commit(rows));
    const auto names = [&](const model::RunFilter& filter) {
      std::vector<std::string> found;
      for (const model::Run& run : store->list_runs(filter).value()) found.push_back(text(run.id));
      return found;
    };
    EXPECT_THAT(names({.user = "ann"}),
                ElementsAre("demo/6", "other/6", "demo/4", "other/4", "demo/2", "other/2"));
    EXPECT_THAT(names({.project = "other", .user = "bob", .limit = 2}),
                ElementsAre("other/5", "other/3"));
    EXPECT_THAT(names({.tag = model::TagFilter{"good"}, .user = "ann"}),
                ElementsAre("demo/4", "other/4"));
    EXPECT_THAT(names({.user = "carl"}), ElementsAre());

    for (const model::RunFilter& filter : std::vector<model::RunFilter>{
             {}, {.project = "other"}, {.user = "ann"}, {.project = "demo", .user = "bob"}}) {
      const std::vector<std::string> all = names(filter);
      std::vector<std::string> paged;
      model::RunFilter page = filter;
      page.limit = 1;
      for (auto found = store->list_runs(page).value(); !found.empty();
           found = store->list_runs(page).value()) {
        page.after = {found[0].submitted, found[0].id};
        paged.push_back(text(found[0].id));
      }
      EXPECT_EQ(paged, all) << "each once, in the same order";
    }
  }
}

// 60 runs of two projects and two users; all but each 7th have a loss, in another order.
TEST_F(StoreTest, RunsAreSortedByTheValuesOfAMetric) {
  auto database = open();
  SqlStore store(*database);
  struct Known {
    model::Run run;
    std::array<double, 3> values{};  // last, least, greatest
  };
  std::vector<Known> known;
  std::vector<model::Change> rows;
  for (int number = 1; number <= 60; ++number) {
    auto run = ended_run(number);
    run.id.project = number % 2 == 0 ? "demo" : "other";
    run.origin.user = number % 3 == 0 ? "ann" : "bob";
    run.submitted = Time(std::chrono::seconds(number));
    if (number % 5 == 0) run.tags = {{"good", "yes"}};
    rows.emplace_back(run);
    const double value = number * 37 % 20;
    if (number % 7 != 0) known.push_back({run, {value, -value - number % 3, 100 - value}});
  }
  ASSERT_TRUE(store.commit(rows));
  const auto insert = [&](const model::RunId& run, const char* name, std::optional<double> last,
                          std::optional<double> least, std::optional<double> greatest) {
    ASSERT_TRUE(database->execute(
        "insert into latest_metrics (project, number, name, rank, epoch, step, time, value, least, "
        "greatest) values (:project, :number, :name, 0, 1, 1, 1, :value, :least, :greatest)",
        run.project, run.number, std::string(name), last, least, greatest));
  };
  for (const auto& [run, values] : known) {
    insert(run.id, "loss", values[0], values[1], values[2]);
    insert(run.id, "another", 1.0, 1.0, 1.0);
  }
  insert({"demo", 14}, "loss", std::nullopt, 3.0, 4.0);  // its last value is NaN

  const auto expected = [&](const model::RunFilter& filter, const MetricOrder& order) {
    std::vector<RankedRun> found;
    model::State state;
    for (const auto& [run, values] : known) {
      state.runs = {{run.id, run}};
      if (!model::list_runs(state, filter).empty())
        found.push_back({run.id, values[static_cast<std::size_t>(order.value)]});
    }
    std::ranges::sort(found, [&](const RankedRun& a, const RankedRun& b) {
      const auto place = [](const RankedRun& each) { return std::pair(each.value, each.run); };
      return order.descending ? place(a) > place(b) : place(a) < place(b);
    });
    return found;
  };
  for (const model::RunFilter& filter : std::vector<model::RunFilter>{
           {},
           {.project = "demo"},
           {.projects = {{"other"}}},
           {.state = model::RunState::succeeded},
           {.tag = model::TagFilter{"good", "yes"}},
           {.user = "ann"},
           {.project = "other", .tag = model::TagFilter{"good"}, .user = "bob"},
           {.since = Time(std::chrono::seconds(20)), .until = Time(std::chrono::seconds(40))}})
    for (const MetricValue value : {MetricValue::last, MetricValue::least, MetricValue::greatest})
      for (const bool descending : {false, true}) {
        MetricOrder order{.metric = "loss", .value = value, .descending = descending};
        std::vector<RankedRun> paged;
        model::RunFilter page = filter;
        page.limit = 7;
        for (auto found = ranked_runs(*database, page, order).value(); !found.empty();
             found = ranked_runs(*database, page, order).value()) {
          paged.insert(paged.end(), found.begin(), found.end());
          order.after = found.back();
        }
        // It has other values than the last one.
        std::erase(paged, RankedRun{{"demo", 14}, value == MetricValue::least ? 3.0 : 4.0});
        EXPECT_EQ(paged, expected(filter, order)) << "each once, in order";
      }
  EXPECT_THAT(ranked_runs(*database, {}, {.metric = "none"}).value(), ElementsAre());
}

TEST_F(StoreTest, AnExternalRunIsKeptAndUsesNoFairShare) {
  auto database = open();
  SqlStore store(*database);
  auto run = full_run();
  run.job = "3f9c0a5e7d21b864";
  run.state = model::RunState::succeeded;
  run.ended = run.submitted;
  run.time_used = std::chrono::seconds(10);
  ASSERT_TRUE(store.commit(std::vector<model::Change>{run}));
  const auto kept = store.find_run(run.id).value().value();
  EXPECT_EQ(kept.run, run);
  EXPECT_FALSE(store.load().value().usage.contains("demo"));
  ASSERT_TRUE(store.remove_run(kept, {}));
  EXPECT_EQ(store.load().value().usage["demo"].used_by_day[model::day_of(*run.ended)], 0);
}

TEST_F(StoreTest, ARemovedRunLeavesItsNumberItsUsageAndWorkForTheJanitor) {
  auto database = open();
  SqlStore store(*database);
  ASSERT_TRUE(store.commit(all_rows()));
  auto run = full_run();
  run.state = model::RunState::failed;
  run.ended = run.submitted;
  run.time_used = std::chrono::seconds(10);
  ASSERT_TRUE(store.commit(std::vector<model::Change>{run}));
  ASSERT_TRUE(store.remove_run(store.find_run(run.id).value().value(), {}));
  const model::State state = store.load().value();
  EXPECT_TRUE(state.runs.empty() && state.attempts.empty() && state.nodes.empty());
  EXPECT_EQ(state.numbers.at("demo"), 3);
  EXPECT_EQ(state.usage.at("demo").used_by_day.at(model::day_of(*run.ended)), 20);
  const auto removed = next_removed_run(*database).value().value();
  EXPECT_EQ(removed.id, run.id);
  EXPECT_EQ(removed.generation, "0f5c");
  EXPECT_THAT(removed.nodes,
              ElementsAre(model::NodeName{full_attempt().generation, full_node().id}));
  ASSERT_TRUE(finish_removed_run(*database, run.id));
  EXPECT_FALSE(next_removed_run(*database).value());
}

TEST_F(StoreTest, EndedRunsComeByTheirEndWithWhatWasCleanedUp) {
  auto database = open();
  SqlStore store(*database);
  for (int number : {3, 1, 2})
    ASSERT_TRUE(store.commit(std::vector<model::Change>{ended_run(number)}));
  auto first = ended_runs_after(*database, std::nullopt, 2).value();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].id.number, 1);
  first[0].cleaned = CleanupLevel::lines;
  ASSERT_TRUE(record_cleaned(*database, first[0]));
  const auto rest = ended_runs_after(*database, first[1], 2).value();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].id.number, 3);
  const auto level = [&] {
    return ended_runs_after(*database, std::nullopt, 1).value()[0].cleaned;
  };
  EXPECT_EQ(level(), CleanupLevel::lines);
  auto again = ended_run(1);
  again.ended = *again.ended + Duration(1);
  ASSERT_TRUE(store.commit(std::vector<model::Change>{again}));
  EXPECT_EQ(level(), CleanupLevel::none) << "it was resumed and has ended again";
}

TEST_F(StoreTest, ASecondDaemonIsRefusedWhileTheFirstLives) {
  auto first = open();
  const auto second = Database::open(file());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::already_exists);
  EXPECT_THAT(second.error().message, HasSubstr("another daemon uses"));
  first.reset();
  EXPECT_TRUE(Database::open(file()));
}

TEST_F(StoreTest, ASecondDaemonIsRefusedThoughTheLockFileIsRemoved) {
  const auto first = open();
  ASSERT_TRUE(fs::remove(file().parent_path() / "lock"));
  const auto second = Database::open(file());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::already_exists);
}

TEST_F(StoreTest, ASecondDaemonIsRefusedThoughTheDatabaseIsRemoved) {
  const auto first = open();
  ASSERT_TRUE(fs::remove(file()));
  EXPECT_EQ(Database::open(file()).error().code, Code::already_exists);
}

TEST_F(StoreTest, NothingIsStoredInAFileThatWasRemovedUntilItIsBack) {
  const auto database = open();
  SqlStore store(*database);
  const fs::path aside = folder_ / "aside";
  fs::rename(file(), aside);
  EXPECT_EQ(database->file_status(), Database::FileStatus::missing);
  EXPECT_THAT(store.check_writable().error().message,
              HasSubstr("was removed while the daemon uses it"));
  fs::rename(aside, file());
  EXPECT_EQ(database->file_status(), Database::FileStatus::in_place);
  EXPECT_TRUE(store.check_writable());
}

TEST_F(StoreTest, NothingIsStoredInAFileThatAnotherReplacesAndTheOthersJournalStays) {
  auto database = open();
  fs::rename(file(), folder_ / "aside");
  ASSERT_TRUE(write_file(file(), ""));
  const fs::path journal = file().string() + "-wal";
  ASSERT_TRUE(write_file(journal, "another's"));
  EXPECT_EQ(database->file_status(), Database::FileStatus::replaced);
  EXPECT_THAT(SqlStore(*database).check_writable().error().message, HasSubstr("was replaced"));
  database.reset();
  EXPECT_EQ(read_file(journal).value(), "another's");
}

TEST_F(StoreTest, OneOfANewerLockstepIsRefusedAndStaysUntouched) {
  ASSERT_TRUE(open()->execute("update schema_version set version = 99"));
  const auto before = read_file(file()).value();
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("written by a newer Lockstep"));
  EXPECT_EQ(read_file(file()).value(), before);
}

TEST_F(StoreTest, AStrangersDatabaseIsRefused) {
  {
    auto database = open();
    ASSERT_TRUE(database->execute("drop table schema_version"));
  }
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("not one of Lockstep"));
}

TEST_F(StoreTest, AFileThatIsNoDatabaseIsNamed) {
  ASSERT_TRUE(make_folders(file().parent_path()));
  ASSERT_TRUE(write_file(file(), std::string(4096, 'x')));
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::corrupt);
  EXPECT_THAT(refused.error().message, HasSubstr(file().string()));
}

// It contains the environments of runs.
TEST_F(StoreTest, ItsFileIsForItsOwnerAlone) {
  const auto may = [&] { return fs::status(file()).permissions() & fs::perms::all; };
  const auto owner_only = fs::perms::owner_read | fs::perms::owner_write;
  open();
  EXPECT_EQ(may(), owner_only);
  fs::permissions(file(), fs::perms::others_read, fs::perm_options::add);
  open();
  EXPECT_EQ(may(), owner_only);
}

TEST_F(StoreTest, WhatCannotBeReadIsCorruptionAndNamedByTableRowAndColumn) {
  for (const auto& [change, named] :
       {std::pair(
            "update runs set state = 'runing'",
            "table runs, demo/3, column state: 'runing' is none of queued, starting, running, "
            "succeeded, failed, timed_out, cancelled, did you mean 'running'?"),
        std::pair("update runs set spec = '{}'", "table runs, demo/3, column spec: "),
        std::pair("update attempts set cause = 'bad luck'",
                  "table attempts, demo/3.2, column cause: 'bad luck' is none of "),
        std::pair("update nodes set state = ''", "table nodes, demo/3.2/1, column state: "),
        std::pair("update hosts set state = 'shut'",
                  "table hosts, b, column state: 'shut' is none "),
        std::pair("update hosts set facts = '{}'",
                  "table hosts, b, column facts: the field 'id' is missing"),
        std::pair("update hosts set facts = 'no JSON'", "table hosts, b, column facts: "),
        std::pair("update hosts set next_facts = '[]'", "table hosts, b, column next_facts: "),
        std::pair("update ranks set activity = 'dancing' where local_rank = 1",
                  "table ranks, local rank 1 of demo/3.2/1, column activity: 'dancing' is none "
                  "of ")}) {
    auto database = open();
    SqlStore store(*database);
    ASSERT_TRUE(store.commit(all_rows()));
    ASSERT_TRUE(database->execute(change));
    const auto loaded = store.load();
    ASSERT_FALSE(loaded) << change;
    EXPECT_EQ(loaded.error().code, Code::corrupt);
    EXPECT_THAT(loaded.error().message, HasSubstr(file().string() + ": " + named));
    database.reset();
    fs::remove(file());
  }
}

TEST_F(StoreTest, TwoRunsCannotHaveOneRequestId) {
  auto database = open();
  SqlStore store(*database);
  auto other = full_run();
  other.id.number = 4;
  EXPECT_TRUE(store.commit(std::vector<model::Change>{full_run()}));
  EXPECT_FALSE(store.commit(std::vector<model::Change>{other}));
  other.request_id = "";
  auto third = other;
  third.id.number = 5;
  EXPECT_TRUE(store.commit(std::vector<model::Change>{other, third})) << "none is no id";
  EXPECT_EQ(store.load().value().runs.size(), 3u);
  EXPECT_EQ(store.load().value().requests,
            (std::map<std::string, model::RunId>{{"0f3c", {"demo", 3}}}));
}

// Removes everything that the steps after that of budgets add; a new step adds its own removal
// here.
constexpr int kStepOfBudgets = 31;
constexpr std::string_view kUndoStepsSinceBudgets[] = {
    "drop index runs_by_state",
    "alter table runs drop column query_state",
    "drop index runs_by_priority",
    "drop index runs_by_start",
    "drop table unread_runs",
    "drop table run_values",
    "drop table media",
    "drop index runs_by_job",
    "alter table nodes drop column nccl_network",
    "drop table mlflow_links",
    "drop table mlflow_models",
    "drop table model_aliases",
    "drop table model_versions",
    "drop table models",
    "drop table documents",
    "drop table artifacts",
    "drop table artifact_garbage",
    "alter table tokens drop column parent",
    "drop table use_months",
    "drop table use_marks",
    "drop table finding_marks",
    "drop table findings",
    "alter table log_chunks drop column packed",
    "drop index runs_by_user",
    "drop table mlflow_values",
    "drop table mlflow_runs",
    "drop table mlflow_experiments",
    "drop index runs_with_tags",
    "drop index log_chunks_by_attempt",
    "alter table runs drop column note",
    "alter table runs drop column tags",
    "drop trigger usage_is_summed",
    "drop table usage_days",
    "drop table buckets",
    "alter table runs drop column project_kind",
    "alter table attempts drop column idle_warned",
    "alter table nodes drop column idle_since",
    "alter table limits drop column idle_stop",
    "alter table budgets drop column warned",
    "drop index usage_by_run",
    "drop table latest_metrics",
    "alter table run_counters drop column generation",
    "alter table spools drop column points",
    "alter table runs drop column extended",
    "alter table runs drop column charged",
    "drop table notice_targets",
    "drop table notices"};

// The rest of what files older than the fifth step lack.
constexpr std::string_view kUndoNewerSteps[] = {
    "drop table users",
    "drop table projects",
    "drop table members",
    "drop table tokens",
    "drop table audit",
    "drop table secrets",
    "drop table budgets",
    "drop table rates",
    "drop table postings",
    "drop table usage",
    "alter table runs drop column awaits_budget",
    "alter table attempts drop column charge",
    "alter table attempts drop column is_placed",
    "alter table attempts drop column lease",
    "alter table nodes drop column last_progress",
    "alter table attempts drop column engine",
    "alter table attempts drop column admitted",
    "alter table nodes drop column handle",
    "alter table nodes drop column incarnation",
    "alter table nodes drop column pending_reason",
    "drop index runs_by_end",
    "drop index runs_by_submission",
    "drop table cleaned_runs",
    "drop table removed_runs",
    "drop index run_counters_with_points",
    "drop index run_counters_with_lines",
    "alter table run_counters drop column points",
    "alter table run_counters drop column points_removed",
    "alter table series drop column removed",
    "alter table log_chunks rename column counters to tally",
    "alter table run_counters rename to tallies",
    "alter table runs rename column time_used to charged",
    "alter table runs rename column awaits_dependencies to awaits_others",
    "alter table runs rename column fair_share_used to share",
    "alter table attempts rename column last_checkpoint to saved",
    "alter table attempts rename column last_checkpoint_step to saved_step",
    "alter table attempts rename column move_destination to moves_to",
    "alter table nodes rename column last_heartbeat to last_heard",
    "alter table nodes rename column kill_requested_at to killed",
    "alter table ranks rename column signalled_by_agent to signalled_by_us",
    "alter table store rename column only to place",
    "alter table store rename column issued to minted",
    "alter table orphans rename column stop_requested_at to stopping",
    "drop index runs_by_request",
    "alter table runs drop column request_id",
    "alter table runs drop column launcher",
    "alter table runs drop column job",
    "alter table runs drop column priority",
    "alter table runs drop column held",
    "alter table runs drop column awaits_others",
    "alter table runs drop column audit",
    "alter table runs drop column moves",
    "alter table runs drop column share",
    "alter table attempts drop column saved",
    "alter table attempts drop column moves_to",
    "drop table hosts",
    "drop table limits",
    "drop table events",
    "drop table store",
    "drop table clock",
    "drop table orphans",
    "drop table given_up_nodes",
    "drop table measured",
    "alter table runs drop column generation",
    "alter table attempts drop column generation",
    "alter table ranks drop column activity_since",
    "alter table ranks drop column fault",
    "alter table ranks drop column fault_rank",
    "alter table ranks drop column fault_text",
    "alter table ranks drop column restarts",
    "alter table attempts drop column saved_step",
    "alter table nodes drop column stop_reason",
    "alter table nodes drop column unreachable_since",
    "alter table nodes drop column agents"};

void undo_newer_steps(Database& database) {
  for (const std::string_view sql : kUndoStepsSinceBudgets)
    ASSERT_TRUE(database.execute(sql)) << sql;
  for (const std::string_view sql : kUndoNewerSteps) ASSERT_TRUE(database.execute(sql)) << sql;
}

TEST_F(StoreTest, MigrationGoesOnFromWhereAFileStands) {
  {
    auto database = open();
    ASSERT_TRUE(SqlStore(*database).commit(all_rows()));
    undo_newer_steps(*database);
    for (auto table :
         {"drop table spools", "drop table log_chunks", "drop table tallies",
          "drop table summaries", "drop table points", "drop table series", "drop table progress",
          "drop table checkpoints", "alter table ranks drop column step",
          "alter table ranks drop column stalled_since", "alter table ranks drop column activity",
          "alter table runs drop column queued"})
      ASSERT_TRUE(database->execute(table));
    ASSERT_TRUE(database->execute("update schema_version set version = 1"));
  }
  auto database = open();
  EXPECT_EQ(schema_version_of(*database).value(), schema_version_latest());
  const model::State loaded = SqlStore(*database).load().value();
  EXPECT_EQ(loaded.runs.at(full_run().id).queued, full_run().submitted);
  EXPECT_EQ(loaded.nodes.at(full_node().id).ranks.at(0).activity, model::Activity::unknown);
  EXPECT_TRUE(database->rows<std::int64_t>("select first from log_chunks").value().empty());
  EXPECT_EQ(loaded.store, model::StoreRow()) << "its next daemon names it";
  EXPECT_EQ(loaded.attempts.at(full_attempt().id).generation, "");
}

TEST_F(StoreTest, TheUsageOfAnOlderFileIsSummedByDays) {
  const auto part = [](std::int64_t hour) {
    return budget::UsagePart{.run = "demo/1",
                             .epoch = 1,
                             .project = "demo",
                             .user = "ann",
                             .kind = "gpu",
                             .devices = 1,
                             .starts = 1,
                             .from = {},
                             .until = Time(std::chrono::hours(hour)),
                             .used = std::chrono::hours(2),
                             .charged = std::chrono::hours(1)};
  };
  const auto days = [](Database& database) {
    return database
        .rows<std::int64_t, std::int64_t, std::int64_t>(
            "select day, starts, charged / 3600000000 from usage_days order by day")
        .value();
  };
  std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> before;
  {
    auto database = open();
    ASSERT_TRUE(
        SqlStore(*database).commit(std::vector<model::Change>{part(1), part(23), part(24)}));
    before = days(*database);
    for (const std::string_view sql : kUndoStepsSinceBudgets)
      ASSERT_TRUE(database->execute(sql)) << sql;
    ASSERT_TRUE(database->execute("update schema_version set version = :v", kStepOfBudgets));
  }
  auto database = open();
  EXPECT_EQ(days(*database), before);
  EXPECT_EQ(before, (decltype(before){{0, 2, 2}, {1, 1, 1}}));
  ASSERT_TRUE(SqlStore(*database).commit(std::vector<model::Change>{part(25)}));
  EXPECT_EQ(days(*database).back(), std::tuple(1, 2, 2));
}

// As of the third step, whose tables have a row for each line.
void undo_to_step_3(Database& database) {
  undo_newer_steps(database);
  for (auto sql : {"drop table log_chunks", "drop table tallies", "drop table summaries",
                   "drop index series_behind", "alter table series drop column summarized",
                   "alter table series drop column pending",
                   R"(create table log_lines (
            cursor integer primary key autoincrement, project text not null,
            number integer not null, epoch integer not null, rank integer not null,
            time integer not null, line text not null) strict)",
                   "update schema_version set version = 3"})
    ASSERT_TRUE(database.execute(sql)) << sql;
}

void make_older_store(const fs::path& file) {
  auto database = Database::open(file).value();
  ASSERT_TRUE(SqlStore(*database).commit(all_rows()));
  undo_to_step_3(*database);
}

TEST_F(StoreTest, IsCopiedBeforeItsTablesAreChanged) {
  make_older_store(file());
  const fs::path copy = tables_copy_path(file(), 3), earlier = tables_copy_path(file(), 2);
  ASSERT_TRUE(write_file(earlier, "of the update before"));
  open();
  EXPECT_EQ(fs::status(copy).permissions() & fs::perms::all,
            fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_FALSE(fs::exists(earlier)) << "only the last copy is kept";
  EXPECT_EQ(schema_version_of(*open()).value(), schema_version_latest());
  fs::rename(copy, file());
  fs::remove(file().string() + "-wal");
  EXPECT_TRUE(SqlStore(*open()).load().value().runs.contains(full_run().id)) << "it is complete";
}

TEST_F(StoreTest, IsNotCopiedIfItsTablesAreCurrent) {
  ASSERT_TRUE(SqlStore(*open()).commit(all_rows()));
  open();
  for (const fs::path& path : list_folder(file().parent_path()).value())
    EXPECT_THAT(path.string(), Not(HasSubstr(".tables-")));
}

TEST_F(StoreTest, ACopyThatCannotBeMadeLeavesTheTablesAsTheyAre) {
  make_older_store(file());
  ASSERT_TRUE(make_folders(tables_copy_path(file(), 3).string() + ".unfinished"));
  const auto refused = Database::open(file());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(".tables-3.unfinished"));
  fs::remove(tables_copy_path(file(), 3).string() + ".unfinished");
  open();
  EXPECT_TRUE(fs::exists(tables_copy_path(file(), 3))) << "the tables were still the old ones";
}

TEST_F(StoreTest, ATableWithOtherColumnsThanTheRowsIsNamed) {
  for (const auto& [change, named] :
       {std::pair("alter table runs drop column moves", "table runs has no column moves"),
        std::pair("alter table hosts add column color text",
                  "table hosts has a column color that this Lockstep does not know"),
        std::pair("alter table limits drop column weight", "table limits has no column weight")}) {
    auto database = open();
    ASSERT_TRUE(database->execute(change)) << change;
    const auto loaded = SqlStore(*database).load();
    ASSERT_FALSE(loaded) << change;
    EXPECT_EQ(loaded.error().code, Code::corrupt);
    EXPECT_THAT(loaded.error().message, HasSubstr(named));
    database.reset();
    fs::remove(file());
  }
}

TEST_F(StoreTest, AColumnOfAnotherTypeIsNamed) {
  auto database = open();
  ASSERT_TRUE(database->execute("drop table clock"));
  ASSERT_TRUE(database->execute("create table clock (only integer, boot integer, zero integer)"));
  EXPECT_THAT(SqlStore(*database).load().error().message,
              HasSubstr("table clock has a column boot of type INTEGER, which must be TEXT"));
}

TEST_F(StoreTest, LinesAndPointsOfAnOlderFileAreKept) {
  {
    auto database = open();
    undo_to_step_3(*database);
    for (auto sql :
         {R"(insert into log_lines values (7, 'demo', 3, 2, 1, 99, 'one'),
            (8, 'other', 1, 1, 0, 99, 'two'), (9, 'demo', 3, 2, 0, 99, 'three'))",
          R"(insert into series (id, project, number, name, rank, epoch, step, time, value)
            values (5, 'demo', 3, 'loss', 0, 2, 11, 99, 0.5))",
          "insert into points values (5, 10, 2, 98, 0.75), (5, 11, 2, 99, 0.5)"})
      ASSERT_TRUE(database->execute(sql)) << sql;
  }
  auto database = open();
  using Chunk = std::tuple<std::int64_t, int, std::string>;
  const auto chunks = database
                          ->rows<std::int64_t, int, std::string>(
                              "select first, rank, text from log_chunks join run_counters on "
                              "run_counters.id = counters where project = 'demo' order by first")
                          .value();
  EXPECT_THAT(chunks, ElementsAre(Chunk(7, 1, "one"), Chunk(9, 0, "three")));
  using Tally = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  EXPECT_THAT((database
                   ->rows<std::int64_t, std::int64_t, std::int64_t>(
                       "select next, bytes, series from run_counters where project = 'demo'")
                   .value()),
              ElementsAre(Tally(10, 136, 1)));
  EXPECT_EQ(std::get<0>(database->rows<int>("select pending from series").value()[0]), 2);
}

TEST_F(StoreTest, ErrorsOfSqlAreErrorsNotExceptions) {
  auto database = open();
  EXPECT_THAT(database->execute("select nonsense from nowhere").error().message,
              HasSubstr("no such table"));
}

}  // namespace
}  // namespace lockstep::store
