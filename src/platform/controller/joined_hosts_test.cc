// The controller of a cluster whose hosts join: its map, its launches, and what a restart keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "comm/cost/costs.h"
#include "map/query.h"
#include "platform/controller/controller.h"
#include "platform/store/memory_history_for_test.h"
#include "platform/store/sql_store.h"

namespace lockstep::controller {
namespace {

using ::testing::HasSubstr;

// Starts nothing, and lists what it was told to start.
class ListingEngine : public engine::Engine {
 public:
  std::string_view name() const override { return "hosts"; }
  void submit(engine::Gang gang) override {
    for (const engine::NodePlacement& placement : gang.nodes) {
      launches.push_back(engine::launch_spec(gang, placement, ""));
      nodes.push_back({.node = engine::node_name(gang, placement), .seen = {}, .record = {}});
    }
  }
  void kill(const model::NodeName& node) override { killed.push_back(node); }
  Result<engine::EngineList> list() override {
    engine::EngineList listed{.nodes = nodes, .unavailable = unavailable};
    for (const std::string& host : silent) {
      listed.unavailable.emplace(host, "it is silent");
      listed.silent.insert(host);
    }
    return listed;
  }

  std::vector<host::LaunchSpec> launches;
  std::vector<engine::ListedNode> nodes;
  std::vector<model::NodeName> killed;
  std::map<std::string, std::string> unavailable;
  std::set<std::string> silent;
};

class TestClock : public Clock, public SteadyClock {
 public:
  Time now() const override { return Time(since_boot()); }
  Duration since_boot() const override { return std::chrono::hours(24 * 365 * 50) + passed; }
  std::string boot_id() const override { return "first"; }

  Duration passed{};
};

map::Host facts_of(const std::string& id, int devices) {
  map::Host host;
  host.id = id;
  host.address = "10.0.0." + id;
  host.to_leaf.latency = std::chrono::microseconds(5);
  for (int number = 0; number < devices; ++number)
    host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
  return host;
}

class JoinedHostsTest : public ::testing::Test {
 protected:
  JoinedHostsTest() { EXPECT_TRUE(restart()); }

  Result<void> restart() {
    controller_.reset();
    controller_ = TRY(Controller::open({.store = store_,
                                        .history = history_,
                                        .engine = engine_,
                                        .clock = clock_,
                                        .steady = clock_,
                                        .keys = host::Keys::open(home_).value(),
                                        .map = rest_,
                                        .home = home_,
                                        .hosts_make_map = true}));
    return {};
  }
  void join(const std::string& host, int devices, int credential = 0) {
    apply(model::AdmitHost{host, "", credential, std::string(64, 'a'), "m"});
    apply(model::DescribeHost{host, facts_of(host, devices)});
    poll_engine();
  }
  void poll_engine() { pass(std::chrono::seconds(11)); }
  void pass(Duration time) {
    clock_.passed += time;
    controller_->tick();
  }
  model::NodeName give_up_a_node();
  void apply(const model::Event& event) {
    const auto applied = controller_->apply_operator_event(event);
    EXPECT_TRUE(applied) << (applied ? "" : applied.error().message);
  }
  model::RunId submit(int nodes, int devices) {
    model::RunSpec spec;
    spec.project = "demo";
    spec.command = {"train"};
    spec.nodes = nodes;
    spec.devices = devices;
    return controller_->submit(spec, {}).value();
  }

  const TemporaryFolder home_;
  TestClock clock_;
  store::MemoryHistory history_;
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  store::SqlStore store_{*database_};
  ListingEngine engine_;
  map::ClusterMap rest_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(JoinedHostsTest, ADaemonWithoutAHostServesAndARunStartsWhenOneJoins) {
  EXPECT_TRUE(controller_->is_ready());
  const model::RunId run = submit(1, 2);
  poll_engine();
  EXPECT_THAT(controller_->state().runs.at(run).reason, HasSubstr("no host has joined yet"));
  join("a", 2);
  ASSERT_EQ(engine_.launches.size(), 1u);
  EXPECT_EQ(engine_.launches[0].host, "a");
  EXPECT_EQ(engine_.launches[0].address, "10.0.0.a");
}

// The engine of a new store lists what an earlier one has started on the host.
TEST_F(JoinedHostsTest, ANewHostTakesNoRunOnDevicesThatAnOrphanHolds) {
  const model::NodeName orphan{"0f", {{{"act", 1}, 1}, 0}};
  model::AttemptRecord record;
  record.devices = {{"a", {0, 1}}};
  engine_.nodes.push_back({.node = orphan,
                           .seen = {},
                           .record = std::make_shared<engine::LaunchRecord>(engine::LaunchRecord{
                               .attempt = record, .host = "a", .time_left = {}})});
  const model::RunId run = submit(1, 1);
  join("a", 2);
  EXPECT_TRUE(engine_.launches.empty());
  EXPECT_THAT(controller_->state().runs.at(run).reason, HasSubstr("waits for orphan act/1"));
}

// Another store has started it with these devices of host a, by index and by number.
engine::ListedNode orphan_on_a(const std::vector<int>& indices, const std::vector<int>& numbers) {
  engine::LaunchRecord record{.attempt = model::AttemptRecord{}, .host = "a", .devices = numbers};
  record.attempt->devices = {{"a", indices}};
  return {.node = {std::string(16, 'e'), {{{"act", 1}, 1}, 0}},
          .seen = {},
          .record = std::make_shared<engine::LaunchRecord>(std::move(record))};
}

TEST_F(JoinedHostsTest, AnOrphanIsNotGoneBecauseItsHostCannotBeAsked) {
  join("a", 2);
  engine_.nodes.push_back(orphan_on_a({0}, {0}));
  poll_engine();
  apply(model::StopOrphan{{"act", 1}, "ann"});
  engine_.nodes.clear();
  engine_.unavailable["a"] = "it has not called";
  ASSERT_TRUE(restart());
  poll_engine();
  ASSERT_EQ(controller_->state().orphans.size(), 1u);
  EXPECT_TRUE(controller_->state().orphans.begin()->second.stop_requested_at);
  engine_.unavailable.clear();
  poll_engine();
  EXPECT_TRUE(controller_->state().orphans.empty());
}

TEST_F(JoinedHostsTest, AnOrphanHoldsItsDevicesByTheirNumbersOnTheMachine) {
  apply(model::AdmitHost{"a", "", 0, std::string(64, 'a'), "m"});
  map::Host facts = facts_of("a", 3);
  facts.islands.erase(facts.islands.begin() + 1);
  apply(model::DescribeHost{"a", facts});
  engine_.nodes.push_back(orphan_on_a({1, 2}, {1, 2}));
  poll_engine();
  ASSERT_EQ(controller_->state().orphans.size(), 1u);
  EXPECT_EQ(controller_->state().orphans.begin()->second.devices.devices, std::vector{1})
      << "device 1 is gone, and device 2 is the second now";
}

// An order to start it could come before the list with the orphan.
TEST_F(JoinedHostsTest, AGangIsSubmittedAgainOnceAllItsHostsCanBeAsked) {
  join("a", 1);
  join("b", 1);
  submit(2, 1);
  ASSERT_EQ(engine_.launches.size(), 2u);
  engine_.nodes.clear();
  engine_.launches.clear();
  engine_.unavailable["b"] = "it has not called";
  ASSERT_TRUE(restart());
  poll_engine();
  EXPECT_TRUE(engine_.launches.empty());
  engine_.unavailable.clear();
  poll_engine();
  EXPECT_EQ(engine_.launches.size(), 2u);
}

TEST_F(JoinedHostsTest, ProcessesOfNodesThatWereGivenUpHoldTheirDevicesUntilTheyAreKilled) {
  join("a", 2);
  const model::RunId run = submit(1, 1);
  const auto node = engine_.nodes.at(0);
  apply(model::RemoveHost{"a", "ann", true});
  engine_.nodes.clear();
  poll_engine();
  engine_.launches.clear();
  engine_.nodes.push_back(node);
  join("a", 2, 2);
  EXPECT_TRUE(controller_->state().given_up.contains(node.node.id));
  poll_engine();
  EXPECT_THAT(engine_.killed, ::testing::Contains(node.node));
  engine_.nodes.clear();
  poll_engine();
  EXPECT_TRUE(controller_->state().given_up.empty());
  poll_engine();
  EXPECT_FALSE(engine_.launches.empty()) << controller_->state().runs.at(run).reason;
}

TEST_F(JoinedHostsTest, TheNextDaemonHasTheSameMap) {
  join("b", 2);
  join("a", 3);
  const map::ClusterMap before = controller_->state().map;
  ASSERT_TRUE(restart());
  EXPECT_EQ(controller_->state().map, before);
  EXPECT_EQ(map::device_count(before), 5u);
  submit(1, 3);
  ASSERT_EQ(engine_.launches.size(), 1u);
  EXPECT_EQ(engine_.launches[0].host, "a");
}

TEST_F(JoinedHostsTest, LaunchesCarryTheCostsOfTheMapAsItIsNow) {
  join("a", 2);
  submit(1, 1);
  EXPECT_FALSE(engine_.launches.back().env.contains(std::string(comm::kCostsVariable)))
      << "one host has none";
  join("b", 2);
  submit(1, 1);
  EXPECT_EQ(engine_.launches.back().env.at(std::string(comm::kCostsVariable)),
            comm::encode_costs(comm::costs_of(controller_->state().map)));
}

TEST_F(JoinedHostsTest, TheSpeedOfTheSlowerInterfaceIsACostUntilItIsMeasured) {
  for (const auto& [id, speed] : {std::pair("a", 25'000), std::pair("b", 10'000)}) {
    join(id, 2);
    map::Host facts = facts_of(id, 2);
    facts.to_leaf.bandwidth = Bandwidth(speed * std::int64_t{125'000});
    apply(model::DescribeHost{id, facts});
  }
  const auto per_byte = [&] {
    submit(1, 1);
    return comm::parse_costs(engine_.launches.back().env.at(std::string(comm::kCostsVariable)))
        .value()
        .between_hosts.per_byte;
  };
  EXPECT_DOUBLE_EQ(per_byte(), 1 / 1.25e9);
  map::Measured measured;
  measured.between_hosts = map::MeasuredLevel{20, 5, 8};
  apply(model::SetMeasured{measured});
  EXPECT_DOUBLE_EQ(per_byte(), 1 / 1e9);
}

TEST_F(JoinedHostsTest, MeasuredValuesStayWhenHostsJoin) {
  rest_.measured.emplace().between_hosts = {20, 5, 0.8};
  ASSERT_TRUE(restart());
  join("a", 2);
  EXPECT_EQ(controller_->state().map.measured, rest_.measured);
}

// Its host, a, is silent, and the run has been stopped.
model::NodeName JoinedHostsTest::give_up_a_node() {
  join("a", 2);
  const model::RunId run = submit(1, 2);
  const model::NodeName node = engine_.nodes.back().node;
  EXPECT_TRUE(controller_->stop(run, "enough"));
  engine_.silent = {"a"};
  for (int i = 0; i < 40; ++i) pass(std::chrono::seconds(1));
  EXPECT_TRUE(controller_->state().given_up.contains(node.id));
  EXPECT_EQ(controller_->state().runs.at(run).state, model::RunState::cancelled);
  return node;
}

TEST_F(JoinedHostsTest, AGivenUpNodeIsKnownToTheNextDaemonAndIsFreedWhenItsHostDoesNotListIt) {
  const model::NodeName node = give_up_a_node();
  ASSERT_TRUE(restart());
  EXPECT_TRUE(controller_->state().given_up.contains(node.id));
  engine_.killed.clear();
  engine_.silent.clear();
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_EQ(engine_.killed, std::vector{node});
  EXPECT_TRUE(controller_->state().given_up.contains(node.id)) << "its host still lists it";
  engine_.nodes.clear();
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_TRUE(controller_->state().given_up.empty());
}

// Its attempt is of a daemon that did not store which engine started it.
TEST_F(JoinedHostsTest, AGivenUpNodeOfAnAdoptedAttemptIsFreedWhenItsHostDoesNotListIt) {
  join("a", 2);
  engine_.nodes.push_back(orphan_on_a({0, 1}, {0, 1}));
  poll_engine();
  apply(model::AdoptOrphan{{"act", 1}, "ann"});
  const model::RunId run{"act", 1};
  EXPECT_TRUE(controller_->stop(run, "enough"));
  engine_.silent = {"a"};
  for (int i = 0; i < 40; ++i) pass(std::chrono::seconds(1));
  ASSERT_EQ(controller_->state().given_up.size(), 1u);
  engine_.silent.clear();
  engine_.nodes.clear();
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_TRUE(controller_->state().given_up.empty());
}

TEST_F(JoinedHostsTest, NoNodeIsGivenUpBeforeHostsHadTimeToCallANewDaemon) {
  join("a", 2);
  const model::RunId run = submit(1, 2);
  EXPECT_TRUE(controller_->stop(run, "enough"));
  engine_.silent = {"a"};
  pass(std::chrono::seconds(5));
  ASSERT_TRUE(restart());
  for (int i = 0; i < 29; ++i) pass(std::chrono::seconds(1));
  EXPECT_TRUE(controller_->state().given_up.empty());
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_EQ(controller_->state().given_up.size(), 1u);
}

TEST_F(JoinedHostsTest, ANodeOfAHostThatWasDeclaredDeadByMistakeIsKilledBeforeTheHostTakesRuns) {
  const model::NodeName node = give_up_a_node();
  apply(model::HostDead{"a", "ann"});
  EXPECT_TRUE(controller_->state().given_up.empty());
  pass(std::chrono::minutes(5));  // the rows of its run leave the memory
  const model::RunId next = submit(1, 2);
  engine_.killed.clear();
  engine_.silent.clear();
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_EQ(engine_.killed, std::vector{node});
  EXPECT_EQ(controller_->state().runs.at(next).state, model::RunState::queued);
  engine_.nodes.clear();
  for (int i = 0; i < 2; ++i) pass(std::chrono::seconds(1));
  EXPECT_EQ(controller_->state().runs.at(next).state, model::RunState::starting);
}

TEST_F(JoinedHostsTest, DamagedFactsKeepTheDaemonFromStarting) {
  join("a", 2);
  ASSERT_TRUE(
      database_->execute("update hosts set facts = replace(facts, '\"count\":1', '\"count\":0')"));
  EXPECT_THAT(restart().error().message, HasSubstr("table hosts, a, column facts: "));
  ASSERT_TRUE(database_->execute(
      "update hosts set facts = replace(replace(facts, '\"count\":0', '\"count\":1'), "
      "'\"first\":1', '\"first\":0')"));
  const auto refused = restart();
  EXPECT_EQ(refused.error().code, Code::corrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("the host has gpu 0 already"));
}

}  // namespace
}  // namespace lockstep::controller
