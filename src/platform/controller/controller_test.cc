#include "platform/controller/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/temporary_folder_for_test.h"
#include "comm/cost/costs.h"
#include "map/query.h"
#include "platform/store/memory_history_for_test.h"
#include "platform/store/memory_store_for_test.h"
#include "platform/store/sql_store.h"
#include "text/convert.h"

namespace lockstep::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SetClock : public Clock, public SteadyClock {
 public:
  Time now() const override { return time; }
  Duration since_boot() const override { return time - kBeginning - set_by_; }
  std::string boot_id() const override { return boot; }
  // Sets the wall clock only; no time passes.
  void set(Duration by) {
    time += by;
    set_by_ += by;
  }

  static constexpr Time kBeginning = Time(std::chrono::hours(24 * 365 * 50));
  Time time = kBeginning;
  std::string boot = "first";

 private:
  Duration set_by_{};
};

// An engine whose processes are names in a set.
class FakeEngine : public engine::Engine {
 public:
  explicit FakeEngine(SetClock& set_clock) : clock(set_clock) {}
  std::string_view name() const override { return own_name; }
  void submit(engine::Gang gang) override {
    clock.time += submit_time;
    submissions.push_back(gang);
    for (const engine::NodePlacement& placement : gang.nodes) {
      const model::NodeName node = engine::node_name(gang, placement);
      if (known.contains(node)) continue;
      if (!refuse_launch.empty()) {
        seen[node] = {.phase = model::NodePhase::gone,
                      .reason = refuse_launch,
                      .blame = model::EndBlame::host};
        return;
      }
      launches.push_back(engine::launch_spec(gang, placement, ""));
      known.insert(node);
      there.insert(node);
    }
  }
  // As if the daemon had died before the last launch.
  void undo_last_launch() {
    const host::LaunchSpec& last = launches.back();
    const model::NodeName node{last.generation, model::parse_node_id(last.node).value()};
    known.erase(node);
    there.erase(node);
    launches.pop_back();
  }
  void kill(const model::NodeName& node) override {
    kills.push_back(node.id);
    if (!lose_kills) there.erase(node);
  }
  Result<engine::EngineList> list() override {
    ++looks;
    if (refuse_list) return Error{Code::unavailable, "cannot look"};
    std::map<model::NodeName, model::Observation> all = seen;
    for (const model::NodeName& node : there)
      all.emplace(node, model::Observation{.has_agent = !agentless.contains(node.id)});
    engine::EngineList listed{.nodes = {}, .unavailable = unavailable};
    listed.map = map;
    for (const auto& [node, observation] : all)
      listed.nodes.push_back({.node = node, .seen = observation, .record = record_of(node)});
    return listed;
  }
  std::shared_ptr<const engine::LaunchRecord> record_of(const model::NodeName& node) const {
    for (const host::LaunchSpec& launch : launches)
      if (launch.generation == node.generation && launch.node == text(node.id))
        return std::make_shared<engine::LaunchRecord>(engine::launch_record(launch));
    return std::make_shared<engine::LaunchRecord>(
        engine::LaunchRecord{.error = "there is no launch file"});
  }

  std::string own_name = "fake";
  std::string refuse_launch;  // why; empty: it starts nodes
  bool refuse_list = false;
  bool lose_kills = false;
  int looks = 0;
  SetClock& clock;
  std::set<model::NodeName> there;
  std::set<model::NodeName> known;                     // that have ever been started
  std::map<model::NodeName, model::Observation> seen;  // what the list says besides
  std::vector<engine::Gang> submissions;
  std::map<std::string, std::string> unavailable;
  std::shared_ptr<const map::ClusterMap> map;
  Duration submit_time{};
  std::set<model::NodeId> agentless;
  std::vector<host::LaunchSpec> launches;
  std::vector<model::NodeId> kills;
};

map::ClusterMap two_hosts() {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (auto id : {"a", "b"}) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = id;
    host.address = std::string("10.0.0.") + id;
    for (int number : {4, 5})
      host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
  }
  return map;
}

model::RunSpec spec_of(int nodes, int devices) {
  model::RunSpec spec;
  spec.project = "demo";
  spec.command = {"train"};
  spec.nodes = nodes;
  spec.devices = devices;
  spec.working_folder = "/home/ann";
  return spec;
}

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() { restart(); }

  // Restarts the daemon as after a kill.
  void restart() {
    controller_.reset();
    ControllerSetup setup{*used_store_, history_, engine_,
                          clock_,       clock_,   host::Keys::open(home_).value(),
                          two_hosts(),  home_,    step::step_policy(settings_),
                          settings_};
    setup.placing_engine = placing_engine_;
    controller_ = Controller::open(std::move(setup)).value();
  }
  const model::Run& run(const model::RunId& id) {
    EXPECT_TRUE(controller_->fetch(id));
    return controller_->state().runs.at(id);
  }
  bool is_in_memory(const model::RunId& id) const { return controller_->state().runs.contains(id); }
  // Cancelled while it waits for its time.
  model::RunId ended_run(const std::string& request_id = {}) {
    auto spec = spec_of(1, 1);
    spec.not_before = clock_.time + std::chrono::hours(1);
    const model::RunId id = controller_->submit(spec, {}, request_id).value();
    EXPECT_TRUE(controller_->stop(id, "enough"));
    return id;
  }
  std::vector<model::NodeId> nodes(const model::RunId& id) {
    std::vector<model::NodeId> ids;
    for (const model::Node* node : model::nodes_of(controller_->state(), {id, run(id).epoch}))
      ids.push_back(node->id);
    return ids;
  }
  model::NodeReport word(const model::NodeId& node, model::NodeState state) {
    model::NodeReport report;
    report.node = node;
    report.state = state;
    report.address = "10.0.0.1";
    report.master_port = 4000;
    report.rendezvous_port = 5000;
    return report;
  }
  model::NodeReport with_rank(const model::NodeId& node, model::RankState state, int code = 0,
                              bool by_us = false) {
    auto report = word(node, model::NodeState::running);
    model::Rank rank;
    rank.rank = node.index;
    rank.state = state;
    rank.code = code;
    rank.signalled_by_agent = by_us;
    report.ranks = {rank};
    return report;
  }
  model::Command report(const model::NodeReport& report) {
    return controller_->report(report).value();
  }
  void tick(Duration after = std::chrono::milliseconds(1200)) {
    clock_.time += after;
    controller_->tick();
  }

  const TemporaryFolder home_;
  SetClock clock_;
  store::MemoryHistory history_;
  FakeEngine engine_{clock_};
  store::MemoryStore store_;
  store::Store* used_store_ = &store_;
  model::Settings settings_;
  std::string placing_engine_;
  std::unique_ptr<Controller> controller_;
};

TEST_F(ControllerTest, AnEngineThatChoosesHostsNamesThemAlsoToTheNextDaemon) {
  placing_engine_ = engine_.name();
  restart();
  const model::RunId id = controller_->submit(spec_of(2, 2), {}).value();
  const engine::Gang& gang = engine_.submissions.back();
  EXPECT_EQ(gang.nodes[1].host, "");
  EXPECT_TRUE(gang.nodes[1].gpus);
  EXPECT_EQ(gang.nodes[1].devices, (std::vector<int>{0, 1}));
  EXPECT_TRUE(gang.excluded_hosts.empty());
  for (const engine::NodePlacement& node : gang.nodes)
    engine_.seen[engine::node_name(gang, node)] = {.phase = model::NodePhase::pending,
                                                   .reason = "Resources"};
  tick();
  EXPECT_EQ(run(id).reason, "waits in the queue of fake: Resources");
  restart();
  engine_.seen[engine::node_name(gang, gang.nodes[0])] = {.host = "b"};
  engine_.seen[engine::node_name(gang, gang.nodes[1])] = {.host = "a"};
  tick();
  EXPECT_EQ(controller_->state().nodes.at(nodes(id)[0]).host, "b");
  EXPECT_EQ(controller_->state().nodes.at(nodes(id)[1]).host, "a");
  EXPECT_EQ(engine_.submissions.size(), 1u) << "it is submitted once";
}

TEST_F(ControllerTest, AnEngineThatChoosesHostsIsToldThoseThatAreClosed) {
  placing_engine_ = engine_.name();
  restart();
  ASSERT_TRUE(controller_->apply_operator_event(
      model::SetHost{"b", model::HostState::closed, "root", "noise"}));
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_EQ(engine_.submissions.back().excluded_hosts, (std::vector<std::string>{"b"}));
}

TEST_F(ControllerTest, LaunchesCarryTheCostsThatWereMeasuredUnlessTheUserHasHisOwn) {
  map::ClusterMap map = two_hosts();
  map.measured.emplace().between_hosts = {20, 5, 0.8};
  controller_.reset();
  controller_ = Controller::open({store_, history_, engine_, clock_, clock_,
                                  host::Keys::open(home_).value(), map, home_})
                    .value();
  auto spec = spec_of(1, 1);
  ASSERT_TRUE(controller_->submit(spec, {}));
  EXPECT_EQ(engine_.launches.back().env.at("LOCKSTEP_COSTS"),
            comm::encode_costs(comm::costs_of(map)));
  spec.env = {{"LOCKSTEP_COSTS", "mine"}};
  ASSERT_TRUE(controller_->submit(spec, {}));
  EXPECT_EQ(engine_.launches.back().env, spec.env);
}

TEST_F(ControllerTest, TheEndOfARunIsCommittedWithItsNotice) {
  auto spec = spec_of(1, 1);
  spec.not_before = clock_.time + std::chrono::hours(1);
  model::Origin origin;
  origin.user = "ann";
  const model::RunId id = controller_->submit(spec, origin).value();
  store_.fail_with(Error{Code::exhausted, "the disk is full"});
  EXPECT_FALSE(controller_->stop(id, "enough"));
  EXPECT_THAT(store_.notices(), IsEmpty());
  store_.fail_with(std::nullopt);
  const int commits = store_.commits();
  ASSERT_TRUE(controller_->stop(id, "enough"));
  EXPECT_EQ(store_.commits(), commits + 1);
  ASSERT_EQ(store_.notices().size(), 1u);
  const model::Notice notice = store_.notices()[0];
  EXPECT_EQ(notice.run, text(id));
  EXPECT_EQ(notice.user, "ann");
  EXPECT_EQ(notice.reason, run(id).reason);
  restart();
  tick();
  EXPECT_EQ(store_.notices().size(), 1u);
}

TEST_F(ControllerTest, AFindingIsANotice) {
  const model::RunId id = ended_run();
  ASSERT_TRUE(controller_->report_finding("demo", id, "its devices were idle"));
  EXPECT_EQ(store_.notices().back().kind, model::NoticeKind::finding);
  EXPECT_EQ(store_.notices().back().run, text(id));
  EXPECT_EQ(store_.notices().back().reason, "its devices were idle");
}

TEST_F(ControllerTest, LaunchesHaveTheValuesOfSecretsAndNothingElseHasThem) {
  std::map<std::string, std::string> values{{"demo/hf-token", "hunter2"}};
  controller_.reset();
  ControllerSetup setup{store_,      history_, engine_,
                        clock_,      clock_,   host::Keys::open(home_).value(),
                        two_hosts(), home_};
  setup.secret_value = [&](const std::string& project,
                           const std::string& secret) -> Result<std::string> {
    const auto found = values.find(format("{}/{}", project, secret));
    if (found != values.end()) return found->second;
    return Error{Code::not_found, format("there is no secret {}", secret)};
  };
  controller_ = Controller::open(std::move(setup)).value();
  auto spec = spec_of(1, 1);
  spec.secrets = std::map<std::string, std::string>{{"HF_TOKEN", "hf-token"}};
  const model::RunId first = controller_->submit(spec, {}).value();
  const host::LaunchSpec& launch = engine_.launches.back();
  EXPECT_EQ(launch.env.at("HF_TOKEN"), "hunter2");
  EXPECT_THAT(dump_json(to_json(launch.attempt)), Not(HasSubstr("hunter2")));
  EXPECT_THAT(dump_json(to_json(run(first).spec)), Not(HasSubstr("hunter2")));

  const auto launches = engine_.launches.size();
  values.clear();
  const model::RunId second = controller_->submit(spec, {}).value();
  tick();
  tick();
  EXPECT_EQ(engine_.launches.size(), launches);
  EXPECT_EQ(run(second).state, model::RunState::cancelled);
  EXPECT_THAT(run(second).reason, HasSubstr("there is no secret hf-token"));
}

TEST_F(ControllerTest, AHostThatIsNewAtTheEngineTakesRunsAtOnce) {
  const std::size_t before = map::hosts(controller_->state().map).size();
  map::ClusterMap seen = two_hosts();
  map::Leaf& leaf = seen.pods[0].leaves[0];
  leaf.hosts = {leaf.hosts[0]};
  leaf.hosts[0].id = "new";
  engine_.map = std::make_shared<const map::ClusterMap>(seen);
  const model::RunId waiting =
      controller_->submit(spec_of(static_cast<int>(before), 2), {}).value();
  const model::RunId next = controller_->submit(spec_of(1, 2), {}).value();
  EXPECT_EQ(run(waiting).state, model::RunState::starting);
  EXPECT_EQ(run(next).state, model::RunState::queued);
  tick();
  tick();
  EXPECT_EQ(map::hosts(controller_->state().map).size(), before + 1);
  ASSERT_EQ(run(next).state, model::RunState::starting);
  EXPECT_EQ(controller_->state().nodes.at(nodes(next)[0]).host, "new");
}

TEST_F(ControllerTest, NewDevicesOfAHostCountOnceNoRunUsesIt) {
  const map::ClusterMap before = controller_->state().map;
  const map::Host& host = before.pods[0].leaves[0].hosts[0];
  map::ClusterMap seen = before;
  auto& devices = seen.pods[0].leaves[0].hosts[0].islands[0].devices;
  devices.push_back(devices.back());
  devices.back().number = 99;
  const auto count = [&] {
    return map::device_count(*map::find_host(controller_->state().map, host.id));
  };
  const std::size_t old = count();
  const model::RunId whole = controller_->submit(spec_of(2, 2), {}).value();  // all hosts
  engine_.map = std::make_shared<const map::ClusterMap>(seen);
  tick();
  tick();
  EXPECT_EQ(count(), old);
  ASSERT_TRUE(controller_->stop(whole, ""));
  engine_.there.clear();
  for (int i = 0; i < 20 && count() == old; ++i) tick();
  EXPECT_EQ(count(), old + 1);
}

TEST_F(ControllerTest, LaunchesNameNoIslandsOfAHostThatHasOne) {
  map::ClusterMap map = two_hosts();
  for (map::Host& host : map.pods[0].leaves[0].hosts) {
    host.islands[0].devices.push_back(host.islands[1].devices[0]);
    host.islands.pop_back();
  }
  controller_.reset();
  controller_ = Controller::open({store_, history_, engine_, clock_, clock_,
                                  host::Keys::open(home_).value(), map, home_})
                    .value();
  ASSERT_TRUE(controller_->submit(spec_of(1, 2), {}));
  EXPECT_TRUE(engine_.launches.back().islands.empty());
}

TEST_F(ControllerTest, LaunchesNameTheUuidsOfTheirGpusIfAllAreKnown) {
  map::ClusterMap map = two_hosts();
  auto& islands = map.pods[0].leaves[0].hosts[0].islands;
  islands[0].devices[0].uuid = "GPU-a4";
  controller_.reset();
  controller_ = Controller::open({store_, history_, engine_, clock_, clock_,
                                  host::Keys::open(home_).value(), map, home_})
                    .value();
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_EQ(engine_.launches.back().host, "a");
  EXPECT_THAT(engine_.launches.back().device_uuids, ElementsAre("GPU-a4"));
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_EQ(engine_.launches.back().host, "a");
  EXPECT_TRUE(engine_.launches.back().device_uuids.empty());
}

TEST_F(ControllerTest, LaunchesCarryAllThatAnAgentNeeds) {
  auto spec = spec_of(2, 2);
  spec.env = {{"A", "b"}};
  const model::RunId id = controller_->submit(spec, {}).value();
  EXPECT_EQ(text(id), "demo/1");
  ASSERT_EQ(engine_.launches.size(), 2u);
  const host::LaunchSpec& launch = engine_.launches[1];
  EXPECT_EQ(launch.node, "demo/1.1/1");
  EXPECT_EQ(launch.host, "b");
  EXPECT_EQ(launch.address, "10.0.0.b");
  EXPECT_THAT(launch.devices, ElementsAre(4, 5));
  EXPECT_THAT(launch.islands, ElementsAre(ElementsAre(4), ElementsAre(5)));
  EXPECT_TRUE(launch.gpus);
  EXPECT_EQ(launch.first_rank, 2);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.nodes, 2);
  EXPECT_EQ(launch.command, spec.command);
  EXPECT_EQ(launch.env, spec.env);
  EXPECT_EQ(launch.working_folder, "/home/ann");
  EXPECT_EQ(launch.checkpoint_folder, "runs/demo/1/checkpoints");
  EXPECT_EQ(launch.node_folder, "runs/demo/1/attempt-1/node-1");
  EXPECT_EQ(launch.daemon_file, "daemon.json");
  const host::Keys keys = host::Keys::open(home_).value();
  EXPECT_EQ(launch.token, keys.agent_token({"", {id, 1}}));
  EXPECT_EQ(launch.secret, keys.attempt_secret({"", {id, 1}}));
  EXPECT_EQ(launch.time_left, std::chrono::hours(1));
  EXPECT_EQ(launch.start_limit, std::chrono::minutes(5));
}

TEST_F(ControllerTest, AFolderIsTheSameHoweverItsPathIsWrittenAndWhoeverHasItByDefault) {
  auto late = spec_of(1, 1);
  late.not_before = clock_.time + std::chrono::hours(1);
  const model::RunId by_default = controller_->submit(late, {}).value();
  auto chosen = late;
  chosen.checkpoint_folder = "/data/gpt";
  const model::RunId first = controller_->submit(chosen, {}).value();
  const auto refusal = [&](const std::string& folder) {
    auto spec = late;
    spec.checkpoint_folder = folder;
    const auto submitted = controller_->submit(spec, {});
    return submitted ? "accepted" : submitted.error().message;
  };
  for (const auto* path : {"/data/gpt/", "/data//gpt/.", "/data/x/../gpt"})
    EXPECT_THAT(refusal(path), HasSubstr(text(first) + " writes to ")) << path;
  const auto own = controller_->checkpoint_folder(run(by_default));
  EXPECT_THAT(refusal(own.string() + "/"), HasSubstr(text(by_default) + " writes to "));
  EXPECT_THAT(refusal((own / "..").string()), "accepted");
  ASSERT_TRUE(controller_->stop(by_default, ""));
  EXPECT_EQ(refusal(own), "accepted");
  const auto resumed = controller_->resume(by_default);
  ASSERT_FALSE(resumed);
  EXPECT_THAT(resumed.error().message, HasSubstr(" writes to its folder and has not ended"));
}

// --- Ended runs ---

TEST_F(ControllerTest, AnEndedRunLeavesTheStateAndIsReadAgainWhenItIsAskedFor) {
  const model::RunId id = ended_run();
  tick();
  EXPECT_TRUE(is_in_memory(id)) << "its agents and users may still call";
  tick(std::chrono::minutes(2));
  EXPECT_FALSE(is_in_memory(id));
  EXPECT_EQ(run(id).reason, "stopped: enough");
  EXPECT_TRUE(controller_->resume(id));
  EXPECT_EQ(run(id).state, model::RunState::queued);
  tick(std::chrono::minutes(2));
  EXPECT_TRUE(is_in_memory(id));
}

TEST_F(ControllerTest, ADaemonLoadsNoEndedRunsAndStillGivesNoNumberAgain) {
  const model::RunId id = ended_run();
  history_.history = {};
  restart();
  EXPECT_FALSE(is_in_memory(id));
  EXPECT_EQ(text(ended_run()), "demo/2");
  EXPECT_EQ(controller_->list_runs({}).value().size(), 2u);
}

TEST_F(ControllerTest, ARequestIdStandsForItsRunLongAfterTheRunHasEnded) {
  auto spec = spec_of(1, 1);
  spec.not_before = clock_.time + std::chrono::hours(1);
  const model::RunId id = ended_run("3f-a");
  tick(std::chrono::minutes(2));
  EXPECT_EQ(controller_->submit(spec, {}, "3f-a").value(), id);
}

TEST_F(ControllerTest, ALateAgentOfARunThatEndedLongAgoLeaves) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  const model::NodeId node = nodes(id)[0];
  report(word(node, model::NodeState::ready));
  report(with_rank(node, model::RankState::exited));
  engine_.there.clear();
  tick();
  ASSERT_EQ(run(id).state, model::RunState::succeeded);
  tick(std::chrono::minutes(2));
  ASSERT_FALSE(is_in_memory(id));
  const model::Command command = report(word(node, model::NodeState::running));
  EXPECT_EQ(command.kind, model::CommandKind::leave);
  EXPECT_FALSE(command.orphaned);
}

TEST_F(ControllerTest, ARunStaysInTheStateWhileAnotherIsToStartAfterIt) {
  const model::RunId first = controller_->submit(spec_of(1, 1), {}).value();
  auto spec = spec_of(1, 1);
  spec.after = {text(first)};
  const model::RunId second = controller_->submit(spec, {}).value();
  ASSERT_TRUE(controller_->apply_operator_event(model::HoldRun{second, "ann", ""}));
  report(word(nodes(first)[0], model::NodeState::ready));
  report(with_rank(nodes(first)[0], model::RankState::exited));
  engine_.there.clear();
  tick();
  tick(std::chrono::minutes(2));
  EXPECT_TRUE(is_in_memory(first));
  restart();
  EXPECT_TRUE(is_in_memory(first));
}

TEST_F(ControllerTest, AResumedRunWaitsAgainForARunThatFailedLongAgo) {
  const model::RunId first = controller_->submit(spec_of(1, 1), {}).value();
  auto spec = spec_of(1, 1);
  spec.after = {text(first)};
  const model::RunId second = controller_->submit(spec, {}).value();
  ASSERT_TRUE(controller_->stop(second, ""));
  ASSERT_TRUE(controller_->stop(first, ""));
  engine_.there.clear();
  tick();
  tick(std::chrono::minutes(2));
  ASSERT_FALSE(is_in_memory(first) || is_in_memory(second));
  ASSERT_TRUE(controller_->resume(second));
  tick();
  EXPECT_EQ(run(second).state, model::RunState::cancelled);
  EXPECT_THAT(run(second).reason, HasSubstr("demo/1, after which it was to start, was cancelled"));
}

TEST_F(ControllerTest, ARemovedRunIsGoneAndItsNumberIsNotGivenAgain) {
  const model::RunId id = ended_run("3f-a");
  tick(std::chrono::minutes(2));
  store_.fail_with(Error{Code::exhausted, "disk full"});
  EXPECT_FALSE(controller_->remove(id));
  store_.fail_with(std::nullopt);
  EXPECT_TRUE(controller_->fetch(id));
  ASSERT_TRUE(is_in_memory(id)) << "what could not be stored has not happened";
  ASSERT_TRUE(controller_->remove(id));
  EXPECT_FALSE(is_in_memory(id));
  EXPECT_EQ(controller_->remove(id).error().code, Code::not_found);
  EXPECT_TRUE(controller_->list_runs({}).value().empty());
  history_.history = {};
  restart();
  EXPECT_EQ(text(ended_run("3f-a")), "demo/2");
}

TEST_F(ControllerTest, ARunThatIsNeededIsNotRemoved) {
  const model::RunId open = controller_->submit(spec_of(1, 1), {}).value();
  EXPECT_THAT(controller_->remove(open).error().message,
              HasSubstr("it is starting; `lockstep stop demo/1 --wait` ends it first"));
  const model::RunId ended = ended_run();
  auto spec = spec_of(1, 1);
  spec.not_before = clock_.time + std::chrono::hours(1);
  spec.checkpoint_folder = controller_->checkpoint_folder(run(ended));
  const model::RunId heir = controller_->submit(spec, {}).value();
  EXPECT_THAT(controller_->remove(ended).error().message,
              HasSubstr("demo/3 continues from its checkpoint folder"));
  ASSERT_TRUE(controller_->stop(heir, ""));
  EXPECT_TRUE(controller_->remove(ended));
}

// --- Identity of the store ---

TEST_F(ControllerTest, ReportsThatComeTogetherAreOneCommit) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  const int before = store_.commits();
  const std::vector<model::NodeReport> reports = {word(nodes(id)[0], model::NodeState::ready),
                                                  word(nodes(id)[1], model::NodeState::ready)};
  const auto commands = controller_->report(reports);
  EXPECT_EQ(store_.commits(), before + 1);
  ASSERT_EQ(commands.size(), 2u);
  for (const auto& command : commands)
    EXPECT_EQ(command.value().kind, model::CommandKind::start) << "as of the last report";
}

TEST_F(ControllerTest, AReportThatCannotBeTrueTakesNoOtherWithIt) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  model::NodeReport wrong = word(nodes(id)[0], model::NodeState::ready);
  wrong.address.clear();
  const std::vector<model::NodeReport> reports = {wrong,
                                                  word(nodes(id)[1], model::NodeState::ready)};
  const auto commands = controller_->report(reports);
  EXPECT_EQ(commands[0].error().code, Code::invalid);
  EXPECT_TRUE(commands[1].has_value());
  EXPECT_EQ(controller_->state().nodes.at(nodes(id)[0]).state, model::NodeState::allocated);
  EXPECT_EQ(controller_->state().nodes.at(nodes(id)[1]).state, model::NodeState::ready);
}

TEST_F(ControllerTest, ReportsThatCannotBeStoredChangeNothingAndAllGetTheError) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  store_.fail_with(Error{Code::exhausted, "no space is left"});
  const std::vector<model::NodeReport> reports = {word(nodes(id)[0], model::NodeState::ready),
                                                  word(nodes(id)[1], model::NodeState::ready)};
  for (const auto& command : controller_->report(reports))
    EXPECT_EQ(command.error().code, Code::exhausted);
  for (const model::NodeId& node : nodes(id))
    EXPECT_EQ(controller_->state().nodes.at(node).state, model::NodeState::allocated);
}

// Two stores in succession in one folder, of the generations a and b.
class StoresTest : public ControllerTest {
 protected:
  StoresTest() {
    controller_.reset();
    history_.history = {};
    history_.generations = {std::string(16, 'a'), std::string(16, 'b'), std::string(16, 'c')};
    restart();
  }
  void restart_on(store::Store& store) {
    used_store_ = &store;
    restart();
  }
};

TEST_F(StoresTest, ARestartKeepsTheGeneration) {
  restart();
  EXPECT_EQ(controller_->state().store.generation, std::string(16, 'a'));
  EXPECT_EQ(history_.history.issued,
            (std::map<std::string, std::int64_t>{{std::string(16, 'a'), 0}}));
}

TEST_F(StoresTest, AnotherStoreGivesNoNumberFolderOrTokenAgain) {
  const model::RunId first = controller_->submit(spec_of(1, 1), {}).value();
  const host::LaunchSpec before = engine_.launches.back();
  EXPECT_EQ(before.generation, std::string(16, 'a'));
  EXPECT_EQ(before.checkpoint_folder, "runs/" + std::string(16, 'a') + "/demo/1/checkpoints");
  engine_.there.clear();
  store::MemoryStore empty;
  restart_on(empty);
  const model::RunId second = controller_->submit(spec_of(1, 1), {}).value();
  EXPECT_EQ(text(second), "demo/2");
  history_.history.numbers.clear();  // the file is lost, too
  store::MemoryStore third;
  restart_on(third);
  ASSERT_EQ(controller_->submit(spec_of(1, 1), {}).value(), first);
  const host::LaunchSpec after = engine_.launches.back();
  EXPECT_EQ(after.node, before.node);
  EXPECT_NE(after.generation, before.generation);
  EXPECT_NE(after.token, before.token);
  EXPECT_NE(after.secret, before.secret);
  EXPECT_NE(after.node_folder, before.node_folder);
  EXPECT_NE(after.checkpoint_folder, before.checkpoint_folder);
}

TEST_F(StoresTest, AnOlderCopyGoesOnUnderAnotherGenerationWithWhatItKnows) {
  const model::RunId known = controller_->submit(spec_of(1, 1), {}).value();
  store::MemoryStore copy = store_;
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  restart_on(copy);
  EXPECT_EQ(controller_->state().store, (model::StoreRow{std::string(16, 'b'), 0}));
  EXPECT_EQ(run(known).generation, std::string(16, 'a'));
  EXPECT_EQ(text(controller_->submit(spec_of(1, 1), {}).value()), "demo/3");
  // The agent that the copy knows continues.
  model::NodeReport ready = word(nodes(known)[0], model::NodeState::ready);
  ready.generation = std::string(16, 'a');
  EXPECT_EQ(report(ready).kind, model::CommandKind::start);
  // A copy that lacks nothing is the store itself.
  store::MemoryStore same = copy;
  restart_on(same);
  EXPECT_EQ(controller_->state().store.generation, std::string(16, 'b'));
}

TEST_F(StoresTest, ARunOfAnotherStoreGoesOnAndHoldsItsDevices) {
  ASSERT_TRUE(controller_->submit(spec_of(1, 2), {}));
  const model::NodeName orphan{std::string(16, 'a'), {{{"demo", 1}, 1}, 0}};
  store::MemoryStore empty;
  restart_on(empty);
  ASSERT_TRUE(controller_->state().orphans.contains(orphan));
  EXPECT_EQ(controller_->state().orphans.at(orphan).devices, (model::HostDevices{"a", {0, 1}}));
  EXPECT_THAT(
      controller_->notices(),
      ElementsAre(HasSubstr("a run of another store is active here: demo/1 (2 devices on a)")));
  const model::RunId next = controller_->submit(spec_of(1, 2), {}).value();
  EXPECT_EQ(engine_.launches.back().host, "b");
  tick(std::chrono::minutes(10));
  tick();
  EXPECT_THAT(engine_.kills, Not(Contains(orphan.id)));
  EXPECT_EQ(text(next), "demo/2");
}

TEST_F(StoresTest, AnOrphanEndsWhenAnOperatorWantsItAndIsSeenToGo) {
  ASSERT_TRUE(controller_->submit(spec_of(1, 2), {}));
  store::MemoryStore empty;
  restart_on(empty);
  ASSERT_TRUE(controller_->apply_operator_event(model::StopOrphan{{"demo", 1}, "root"}));
  model::NodeReport stopping = word({{{"demo", 1}, 1}, 0}, model::NodeState::running);
  stopping.generation = std::string(16, 'a');
  EXPECT_EQ(report(stopping).kind, model::CommandKind::stop);
  for (int i = 0; i < 30; ++i) tick();
  EXPECT_THAT(engine_.kills, Contains(stopping.node));
  EXPECT_TRUE(controller_->state().orphans.empty());
  EXPECT_TRUE(controller_->notices().empty());
}

TEST_F(StoresTest, ARestartedDaemonStillKnowsThatAnOrphanIsToEnd) {
  ASSERT_TRUE(controller_->submit(spec_of(1, 2), {}));
  store::MemoryStore empty;
  restart_on(empty);
  ASSERT_TRUE(controller_->apply_operator_event(model::StopOrphan{{"demo", 1}, "root"}));
  restart_on(empty);
  model::NodeReport stopping = word({{{"demo", 1}, 1}, 0}, model::NodeState::running);
  stopping.generation = std::string(16, 'a');
  EXPECT_EQ(report(stopping).kind, model::CommandKind::stop);
  EXPECT_EQ(controller_->state().orphans.begin()->second.devices,
            (model::HostDevices{"a", {0, 1}}));
  for (int i = 0; i < 30; ++i) tick();
  EXPECT_TRUE(controller_->state().orphans.empty());
}

// The copy was made between the commit of the attempt and its agent's first call.
TEST_F(StoresTest, ACopyThatLacksNothingLaunchesNothingAgainUnderItsName) {
  store::MemoryStore store;
  restart_on(store);
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  store::MemoryStore copy = store;
  const std::size_t launches = engine_.launches.size();
  engine_.there.clear();
  restart_on(copy);
  tick();
  ASSERT_EQ(engine_.launches.size(), launches + 1);
  EXPECT_EQ(engine_.launches.back().node, "demo/1.2/0");
}

// So that a store that replaces it later does not reuse the number.
TEST_F(StoresTest, ARunsNumberIsKeptBesideTheStoreBeforeTheRunIsStored) {
  store_.fail_with(Error{Code::exhausted, "no space is left"});
  ASSERT_FALSE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_EQ(history_.history.numbers.at("demo"), 1);
  store_.fail_with(std::nullopt);
  EXPECT_EQ(text(controller_->submit(spec_of(1, 1), {}).value()), "demo/1");
}

TEST_F(StoresTest, AnOrphanIsAdoptedByWhatItWasLaunchedWith) {
  auto spec = spec_of(2, 1);
  spec.env = {{"A", "b"}};
  spec.timeout = std::chrono::hours(2);
  ASSERT_TRUE(controller_->submit(spec, {"ann", "", false}));
  store::MemoryStore empty;
  restart_on(empty);
  const std::size_t launches = engine_.launches.size();
  ASSERT_TRUE(controller_->apply_operator_event(model::AdoptOrphan{{"demo", 1}, "root"}));
  EXPECT_EQ(run({"demo", 1}).spec, spec);
  EXPECT_EQ(run({"demo", 1}).origin.user, "ann");
  EXPECT_EQ(controller_->checkpoint_folder(run({"demo", 1})),
            home_ / "runs" / std::string(16, 'a') / "demo/1/checkpoints");
  restart_on(empty);
  EXPECT_EQ(engine_.launches.size(), launches) << "it goes on after a restart, too";
  EXPECT_TRUE(controller_->state().orphans.empty());
}

TEST_F(StoresTest, AnAgentThatCallsBeforeItWasListedIsLookedFor) {
  store::MemoryStore empty;
  restart_on(empty);
  const model::NodeName late{std::string(16, 'a'), {{{"demo", 1}, 1}, 0}};
  model::NodeReport call = word(late.id, model::NodeState::running);
  call.generation = late.generation;
  engine_.there.insert(late);
  report(call);
  tick();
  EXPECT_TRUE(controller_->state().orphans.contains(late));
}

TEST_F(StoresTest, AnAgentOfAnotherStoreNeverBecomesARunOfThisOne) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  model::NodeReport stale = word(nodes(id)[0], model::NodeState::ready);
  stale.generation = std::string(16, 'd');
  report(stale);
  EXPECT_EQ(run(id).state, model::RunState::starting);
  EXPECT_EQ(controller_->state().nodes.at(stale.node).state, model::NodeState::allocated);
}

TEST_F(StoresTest, AHistoryThatCannotBeKeptIsSaidAndTriedAgain) {
  history_.failure = Error{Code::exhausted, "no space is left"};
  ASSERT_TRUE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_THAT(controller_->problems(), Contains(HasSubstr("the numbers of runs are not kept")));
  history_.failure.reset();
  tick();
  EXPECT_THAT(controller_->problems(), IsEmpty());
  EXPECT_EQ(history_.history.numbers.at("demo"), 1);
}

// The life of a run whose rank is killed once, as a list of steps; the daemon may be killed and
// restarted between any two of them.
constexpr int kPoints = 19;

class LifeTest : public ControllerTest, public ::testing::WithParamInterface<int> {
 protected:
  LifeTest() {
    used_store_ = &sql_store_;
    restart();
  }
  void point() {
    if (points_++ == GetParam()) restart();
  }
  void start_all(const model::RunId& id) {
    for (const model::NodeId& node : nodes(id)) {
      report(word(node, model::NodeState::ready));
      point();
    }
    for (const model::NodeId& node : nodes(id)) {
      EXPECT_EQ(report(word(node, model::NodeState::ready)).kind, model::CommandKind::start);
      report(with_rank(node, model::RankState::running));
      point();
    }
    EXPECT_EQ(run(id).state, model::RunState::running);
  }
  void leave_all(const model::RunId& id) {
    for (const model::NodeId& node : nodes(id)) {
      EXPECT_EQ(controller_->report(word(node, model::NodeState::running)).value().kind,
                model::CommandKind::leave);
      engine_.there.erase({"", node});
      point();
    }
    tick();
    point();
  }
  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
  store::SqlStore sql_store_{*database_};
  int points_ = 0;
};

TEST_P(LifeTest, EndsTheSameWhereverTheDaemonIsRestartedAndNothingIsLaunchedTwice) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  point();
  start_all(id);
  const auto first = nodes(id);
  report(with_rank(first[1], model::RankState::killed, 9));
  point();
  EXPECT_EQ(report(word(first[0], model::NodeState::running)).kind, model::CommandKind::stop);
  report(with_rank(first[0], model::RankState::killed, 15, true));
  point();
  leave_all(id);
  EXPECT_EQ(run(id).epoch, 2);
  start_all(id);
  for (const model::NodeId& node : nodes(id)) {
    report(with_rank(node, model::RankState::exited, 0));
    point();
  }
  leave_all(id);
  EXPECT_EQ(run(id).state, model::RunState::succeeded);
  EXPECT_EQ(run(id).losses, 1);
  EXPECT_EQ(controller_->state().attempts.at({id, 1}).cause, model::Cause::rank_lost);
  std::vector<std::string> launched;
  for (const host::LaunchSpec& launch : engine_.launches) launched.push_back(launch.node);
  EXPECT_THAT(launched, ElementsAre("demo/1.1/0", "demo/1.1/1", "demo/1.2/0", "demo/1.2/1"));
  EXPECT_TRUE(engine_.kills.empty());
  EXPECT_EQ(points_, kPoints) << "each point is tried";
}
INSTANTIATE_TEST_SUITE_P(EachPoint, LifeTest, ::testing::Range(0, kPoints));

TEST_F(ControllerTest, WhatWasPlacedButNotLaunchedIsLaunchedAfterARestart) {
  engine_.refuse_list = true;
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  engine_.refuse_list = false;
  engine_.undo_last_launch();
  restart();
  ASSERT_EQ(engine_.launches.size(), 2u);
  EXPECT_EQ(engine_.launches[1].node, "demo/1.1/1");
  tick();
  EXPECT_EQ(run(id).epoch, 1);
}

TEST_F(ControllerTest, ALaunchThatFailsIsTriedAgainUntilTheRunFails) {
  engine_.refuse_launch = "no more processes";
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  for (int i = 0; i < 30; ++i) tick();
  EXPECT_EQ(run(id).state, model::RunState::failed);
  EXPECT_EQ(run(id).epoch, 4);
  EXPECT_THAT(run(id).reason, HasSubstr("no more processes"));
}

TEST_F(ControllerTest, ARequestIdStandsForItsRunInTheNextDaemonToo) {
  store_.fail_with(Error{Code::exhausted, "disk full"});
  EXPECT_FALSE(controller_->submit(spec_of(1, 1), {}, "3f-a"));
  store_.fail_with(std::nullopt);
  const model::RunId id = controller_->submit(spec_of(1, 1), {}, "3f-a").value();
  EXPECT_EQ(controller_->submit(spec_of(1, 1), {}, "3f-a").value(), id);
  restart();
  EXPECT_EQ(controller_->submit(spec_of(1, 1), {}, "3f-a").value(), id);
  EXPECT_NE(controller_->submit(spec_of(1, 1), {}, "3f-b").value(), id);
  EXPECT_EQ(controller_->state().runs.size(), 2u);
}

TEST_F(ControllerTest, NothingIsDoneThatCouldNotBeStored) {
  store_.fail_with(Error{Code::exhausted, "disk full"});
  EXPECT_EQ(controller_->submit(spec_of(1, 1), {}).error().message, "disk full");
  EXPECT_TRUE(engine_.launches.empty());
  EXPECT_TRUE(controller_->state().runs.empty());
  store_.fail_with(std::nullopt);
  EXPECT_TRUE(controller_->submit(spec_of(1, 1), {}));
  EXPECT_EQ(engine_.launches.size(), 1u);
}

TEST_F(ControllerTest, WhatATickCouldNotStoreTheNextOneDecidesAgain) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::seconds(20);
  const model::RunId id = controller_->submit(spec, {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  store_.fail_with(Error{Code::exhausted, "disk full"});
  tick(std::chrono::seconds(21));
  EXPECT_EQ(run(id).state, model::RunState::running);
  store_.fail_with(std::nullopt);
  for (int i = 0; i < 15; ++i) {  // agents had time to report an earlier end
    report(with_rank(nodes(id)[0], model::RankState::running));
    tick();
  }
  EXPECT_EQ(model::live_attempt(controller_->state(), id)->cause, model::Cause::timeout);
}

// The log lines during its lifetime.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](LogLevel, std::string_view line) { lines.emplace_back(line); });
  }
  ~LogLines() { set_log_sink({}); }
  std::vector<std::string> lines;
};

TEST_F(ControllerTest, AFullDiskIsSaidOnceAMinuteAndCostsNoRunOnceThereIsRoom) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  const std::string words = "/x/lockstep.db: no space is left; make room in /x";
  LogLines log;
  store_.fail_with(Error{Code::exhausted, words});
  for (int i = 0; i < 300; ++i) {  // five minutes
    tick(std::chrono::seconds(1));
    (void)controller_->report(with_rank(nodes(id)[0], model::RankState::running));
  }
  EXPECT_GE(log.lines.size(), 4u);
  EXPECT_LE(log.lines.size(), 5u);
  for (const std::string& line : log.lines) EXPECT_THAT(line, HasSubstr(words));
  EXPECT_EQ(controller_->submit(spec_of(1, 1), {}).error().code, Code::exhausted);
  store_.fail_with(std::nullopt);
  tick();
  report(with_rank(nodes(id)[0], model::RankState::running));
  EXPECT_THAT(log.lines.back(), HasSubstr("takes changes again"));
  EXPECT_EQ(run(id).state, model::RunState::running);
  EXPECT_EQ(run(id).epoch, 1);
  EXPECT_THAT(engine_.kills, ElementsAre());
  EXPECT_TRUE(controller_->submit(spec_of(1, 1), {}));
  for (int i = 0; i < 301; ++i) tick(std::chrono::seconds(1));  // silence counts again
  EXPECT_THAT(run(id).reason, HasSubstr("was silent for 5m"));
}

TEST_F(ControllerTest, WithNothingToStoreItIsSeenSoonThatThereIsRoomAgain) {
  store_.fail_with(Error{Code::exhausted, "disk full"});
  EXPECT_FALSE(controller_->submit(spec_of(1, 1), {}));
  for (int i = 0; i < 60; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(controller_->problems(), ElementsAre(HasSubstr("disk full")));
  store_.fail_with(std::nullopt);
  for (int i = 0; i < 5; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(controller_->problems(), ElementsAre());
}

TEST_F(ControllerTest, ANodeThatWasNotKilledWhenTheDaemonDiedIsKilledByTheNext) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  const model::NodeId node = nodes(id)[0];
  report(with_rank(node, model::RankState::running));
  engine_.lose_kills = true;  // as if the daemon had died between commit and kill
  for (int i = 0; i < 300; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(engine_.kills, ElementsAre(node));
  EXPECT_EQ(model::live_attempt(controller_->state(), id)->cause, model::Cause::node_lost);
  engine_.lose_kills = false;
  restart();
  for (int i = 0; i < 6; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(engine_.kills, ElementsAre(node, node));
  EXPECT_EQ(run(id).epoch, 2);
}

TEST_F(ControllerTest, AResumedRunHasItsWholeTimeLeft) {
  auto spec = spec_of(1, 1);
  spec.hang_after = std::chrono::minutes(5);
  spec.timeout = std::chrono::hours(2);
  const model::RunId id = controller_->submit(spec, {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  clock_.time += std::chrono::seconds(20);
  ASSERT_TRUE(controller_->stop(id, ""));
  engine_.there.clear();
  tick();
  ASSERT_EQ(run(id).state, model::RunState::cancelled);
  ASSERT_TRUE(controller_->resume(id));
  EXPECT_EQ(engine_.launches.back().node, "demo/1.2/0");
  EXPECT_EQ(engine_.launches.back().time_left, *spec.timeout);
  EXPECT_EQ(engine_.launches.back().hang_after, spec.hang_after);
  EXPECT_EQ(controller_->resume(id).error().code, Code::invalid);
}

TEST_F(ControllerTest, AnEngineThatCannotLookLosesNobody) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  engine_.refuse_list = true;
  tick();
  EXPECT_EQ(run(id).state, model::RunState::running);
  engine_.refuse_list = false;
  engine_.there.clear();
  tick();
  EXPECT_EQ(controller_->state().attempts.at({id, 1}).cause, model::Cause::node_lost);
}

TEST_F(ControllerTest, ADaemonWhoseEngineCannotLookAnswersHearsAgentsAndStartsNothing) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  report(word(nodes(id)[0], model::NodeState::ready));
  engine_.undo_last_launch();
  engine_.refuse_list = true;
  restart();
  EXPECT_EQ(run(id).state, model::RunState::starting);
  for (const auto& refused : {controller_->submit(spec_of(1, 1), {}).error(),
                              controller_->stop(id, "").error(), controller_->resume(id).error()}) {
    EXPECT_EQ(refused.code, Code::unavailable);
    EXPECT_THAT(refused.message, HasSubstr("the engine cannot say what runs: cannot look"));
  }
  EXPECT_THAT(controller_->problems(), ElementsAre(HasSubstr("cannot look")));
  for (int i = 0; i < 120; ++i) {
    EXPECT_EQ(report(word(nodes(id)[0], model::NodeState::ready)).kind, model::CommandKind::none);
    tick(std::chrono::seconds(1));
  }
  EXPECT_EQ(engine_.launches.size(), 1u);
  EXPECT_EQ(run(id).epoch, 1);
  engine_.refuse_list = false;
  for (int i = 0; i < 31; ++i) tick(std::chrono::seconds(1));
  ASSERT_EQ(engine_.launches.size(), 2u);
  EXPECT_EQ(engine_.launches[1].node, "demo/1.1/1");
  EXPECT_THAT(controller_->problems(), ElementsAre());
  EXPECT_TRUE(controller_->submit(spec_of(1, 1), {}));
}

TEST_F(ControllerTest, AnEngineThatCannotLookAtTheStartIsAskedEverMoreSeldom) {
  engine_.refuse_list = true;
  restart();
  engine_.looks = 0;
  for (int i = 0; i < 600; ++i) tick(std::chrono::seconds(1));
  EXPECT_GE(engine_.looks, 115);
  EXPECT_LE(engine_.looks, 125);
}

// Four runs that start at the same moment, of which only two have been submitted.
class TurnsTest : public ControllerTest {
 protected:
  TurnsTest() {
    const model::RunId all = controller_->submit(spec_of(2, 2), {}).value();
    for (model::RunId& id : waiting_) id = controller_->submit(spec_of(1, 1), {}).value();
    EXPECT_TRUE(controller_->stop(all, ""));
    engine_.there.clear();
    engine_.launches.clear();
    engine_.submit_time = std::chrono::milliseconds(30);
    tick();
    EXPECT_EQ(engine_.launches.size(), 2u);
  }
  std::array<model::RunId, 4> waiting_;
};

TEST_F(TurnsTest, ManyGangsAreSubmittedInTurnsSoThatOthersAreAnsweredInBetween) {
  EXPECT_TRUE(controller_->execute_effects());
  EXPECT_EQ(engine_.launches.size(), 3u);
  EXPECT_FALSE(controller_->execute_effects());
  ASSERT_EQ(engine_.launches.size(), 4u);
  EXPECT_EQ(engine_.launches[3].node, text(nodes(waiting_[3])[0]));
}

TEST_F(TurnsTest, WhatWaitsForItsTurnIsNotTakenForGoneAndSurvivesARestart) {
  restart();
  for (int i = 0; i < 4; ++i) tick();
  EXPECT_EQ(engine_.launches.size(), 4u);
  for (const model::RunId& id : waiting_) EXPECT_EQ(run(id).epoch, 1);
}

TEST_F(TurnsTest, ARunThatIsStoppedBeforeItsTurnStartsNoNode) {
  ASSERT_TRUE(controller_->stop(waiting_[3], ""));
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(run(waiting_[3]).state, model::RunState::cancelled);
  EXPECT_EQ(engine_.launches.size(), 3u);
}

TEST_F(ControllerTest, AGangIsSubmittedAsOneWithItsNodesAndItsEngineIsKept) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  ASSERT_EQ(engine_.submissions.size(), 1u);
  const engine::Gang& gang = engine_.submissions[0];
  EXPECT_EQ(text(gang.attempt), text(model::AttemptName{"", {id, 1}}));
  EXPECT_EQ(gang.nodes.size(), 2u);
  EXPECT_TRUE(gang.make_checkpoint_folder);
  EXPECT_EQ(controller_->state().attempts.at({id, 1}).engine, "fake");
}

TEST_F(ControllerTest, ANodeThatWaitsInAQueueOfItsEngineHasItsReasonAndIsNotLate) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  const model::NodeName pending{"", nodes(id)[1]};
  engine_.there.erase(pending);
  engine_.seen[pending] = {
      .phase = model::NodePhase::pending, .reason = "Resources", .handle = "4711"};
  for (int i = 0; i < 900; ++i) {
    report(word(nodes(id)[0], model::NodeState::ready));
    tick(std::chrono::seconds(1));
  }
  const model::Node& node = controller_->state().nodes.at(pending.id);
  EXPECT_EQ(node.pending_reason, "Resources");
  EXPECT_EQ(node.handle, "4711");
  EXPECT_EQ(run(id).epoch, 1);
  const std::int64_t version = run(id).version;
  tick();
  EXPECT_EQ(run(id).version, version) << "nothing is new";

  engine_.seen.clear();
  engine_.there.insert(pending);
  tick(std::chrono::seconds(1));
  EXPECT_EQ(controller_->state().nodes.at(pending.id).pending_reason, "");
  tick(std::chrono::seconds(59));
  EXPECT_EQ(run(id).epoch, 1) << "its agent has the whole time for its first call";
}

TEST_F(ControllerTest, ANodeOfAHostThatCannotBeAskedIsNotTakenForGoneAndNoRunIsPlacedThere) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  const std::string host = controller_->state().nodes.at(nodes(id)[0]).host;
  engine_.unavailable = {{host, "it is silent"}};
  engine_.there.clear();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(run(id).state, model::RunState::running);
  EXPECT_EQ(controller_->state().hosts.at(host).unavailable, "it is silent");
  const model::RunId both = controller_->submit(spec_of(2, 1), {}).value();
  EXPECT_EQ(run(both).state, model::RunState::queued);
  EXPECT_THAT(run(both).reason, HasSubstr(host));

  engine_.unavailable.clear();
  engine_.there.insert({"", nodes(id)[0]});
  tick();
  EXPECT_EQ(controller_->state().hosts.at(host).unavailable, "");
  EXPECT_EQ(run(both).state, model::RunState::starting);
}

TEST_F(ControllerTest, AnAttemptOfAnotherEngineIsNotTakenForGone) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  engine_.own_name = "another";
  engine_.there.clear();
  restart();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(run(id).state, model::RunState::running);
}

TEST_F(ControllerTest, WhatADeadAgentLeftIsKilledAtOnce) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  const model::NodeId node = nodes(id)[0];
  report(with_rank(node, model::RankState::running));
  engine_.agentless.insert(node);
  tick();
  EXPECT_THAT(engine_.kills, ElementsAre(node));
  EXPECT_EQ(controller_->state().attempts.at({id, 1}).cause, model::Cause::node_lost);
  tick();
  EXPECT_EQ(run(id).epoch, 2);
}

// The machine lost power, and was switched on again much later.
TEST_F(ControllerTest, TheTimeThatTheDaemonWasAwayIsNotChargedToARunWhoseNodesDiedMeanwhile) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  const auto word = with_rank(nodes(id)[0], model::RankState::running);
  report(word);
  for (int i = 0; i < 4; ++i) {
    tick(std::chrono::seconds(10));
    report(word);
  }
  engine_.there.clear();
  clock_.time += std::chrono::hours(8);
  restart();
  tick();
  EXPECT_EQ(run(id).epoch, 2);
  EXPECT_EQ(run(id).state, model::RunState::starting);
  EXPECT_EQ(run(id).time_used, Duration(std::chrono::seconds(40)));
}

TEST_F(ControllerTest, TheSettingsForAgentsAndRanksAreInTheirLaunch) {
  (void)controller_->submit(spec_of(1, 1), {}).value();
  EXPECT_FALSE(engine_.launches.back().env.contains("LOCKSTEP_CONNECTION_TIMEOUT"));
  settings_ = {.start_limit = std::chrono::minutes(9),
               .connection_timeout = std::chrono::minutes(1)};
  restart();
  auto spec = spec_of(1, 1);
  (void)controller_->submit(spec, {}).value();
  EXPECT_EQ(engine_.launches.back().start_limit, Duration(std::chrono::minutes(9)));
  EXPECT_EQ(engine_.launches.back().env.at("LOCKSTEP_CONNECTION_TIMEOUT"), "1m");
  spec.env = {{"LOCKSTEP_CONNECTION_TIMEOUT", "30s"}};
  (void)controller_->submit(spec, {}).value();
  EXPECT_EQ(engine_.launches.back().env.at("LOCKSTEP_CONNECTION_TIMEOUT"), "30s");
}

TEST_F(ControllerTest, ADaemonThatStoodStillTakesNobodyForSilent) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  tick();
  tick(std::chrono::minutes(20));
  EXPECT_EQ(run(id).state, model::RunState::running);
  EXPECT_THAT(engine_.kills, ElementsAre());
  for (int i = 0; i < 251; ++i) tick();  // 1.2 s each
  EXPECT_THAT(run(id).reason, HasSubstr("was silent for 5m"));
}

TEST_F(ControllerTest, ADaemonThatStoodStillBeforeItsFirstTickTakesNobodyForSilent) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  restart();
  tick(std::chrono::seconds(90));
  EXPECT_EQ(run(id).state, model::RunState::running);
  EXPECT_THAT(engine_.kills, ElementsAre());
}

TEST_F(ControllerTest, ADaemonWhoseLoopIsSlowFindsNoNodeUnreachable) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  for (int i = 0; i < 20; ++i) tick(std::chrono::seconds(3));
  EXPECT_FALSE(controller_->state().nodes.at(nodes(id)[0]).unreachable_since);
  for (int i = 0; i < 31; ++i) tick(std::chrono::seconds(1));
  EXPECT_TRUE(controller_->state().nodes.at(nodes(id)[0]).unreachable_since);
}

TEST_F(ControllerTest, TheSilenceOfManyNodesIsAProblemOfTheDaemonAndItsEndCountsAsABreak) {
  const model::RunId id = controller_->submit(spec_of(2, 1), {}).value();
  for (const model::NodeId& node : nodes(id)) report(word(node, model::NodeState::ready));
  for (int i = 0; i < 600; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(controller_->problems(), ElementsAre(HasSubstr("none of them is lost before 30m")));
  EXPECT_THAT(engine_.kills, ElementsAre());
  for (const model::NodeId& node : nodes(id)) report(word(node, model::NodeState::ready));
  tick(std::chrono::seconds(1));
  EXPECT_THAT(controller_->problems(), ElementsAre());
  tick(std::chrono::seconds(1));  // its ranks have as long to start as after a restart
  EXPECT_EQ(model::live_attempt(controller_->state(), id)->state, model::AttemptState::launching);
}

TEST_F(ControllerTest, AClockThatIsSetBackHidesNoSilenceAndNoEnd) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  tick();
  clock_.set(-std::chrono::hours(1));
  for (int i = 0; i < 301; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(run(id).reason, HasSubstr("was silent for 5m"));
  ASSERT_EQ(run(id).epoch, 2);
  engine_.there.clear();
  clock_.set(-std::chrono::hours(1));
  tick();
  EXPECT_THAT(run(id).reason, HasSubstr("ended before it called"));
}

// Also when the daemon was away as the clock was set.
class AClockThatIsSet : public ControllerTest, public testing::WithParamInterface<bool> {
 protected:
  // It is restarted twice, so its store needs a generation, or it would count as an older copy.
  AClockThatIsSet() {
    controller_.reset();
    history_.history = {};
    history_.generations = {std::string(16, 'a')};
    restart();
  }
  void set(Duration by) {
    clock_.set(by);
    if (GetParam()) restart();
  }
  model::NodeReport with_rank(const model::NodeId& node, model::RankState state, int code = 0) {
    auto report = ControllerTest::with_rank(node, state, code);
    report.generation = std::string(16, 'a');
    return report;
  }
};
INSTANTIATE_TEST_SUITE_P(Daemon, AClockThatIsSet, testing::Bool(), [](const auto& is_away) {
  return std::string(is_away.param ? "IsAway" : "Serves");
});

TEST_P(AClockThatIsSet, ForwardByAMonthEndsNoRunBeforeItsTime) {
  auto spec = spec_of(1, 1);
  spec.timeout = std::chrono::minutes(10);
  const model::RunId id = controller_->submit(spec, {}).value();
  const auto word = with_rank(nodes(id)[0], model::RankState::running);
  const auto live = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      report(word);
      tick(std::chrono::seconds(1));
    }
  };
  live(60);
  set(std::chrono::hours(24 * 30));
  live(60);
  set(-std::chrono::hours(24 * 30));
  live(60);
  EXPECT_EQ(run(id).state, model::RunState::running);
  EXPECT_THAT(engine_.kills, ElementsAre());
  report(with_rank(nodes(id)[0], model::RankState::exited, 0));
  engine_.there.clear();
  tick();
  EXPECT_EQ(run(id).time_used, Duration(std::chrono::seconds(180)));
}

TEST_P(AClockThatIsSet, BackByAnHourDelaysNoRetryAndNoKill) {
  auto spec = spec_of(1, 1);
  spec.retries = 5;
  const model::RunId id = controller_->submit(spec, {}).value();
  const auto fail = [&] {
    const model::NodeId node = nodes(id)[0];
    report(with_rank(node, model::RankState::running));
    report(with_rank(node, model::RankState::exited, 1));
    engine_.there.clear();
    tick(Duration(1));
  };
  fail();
  fail();  // the third attempt comes after a pause of two seconds
  ASSERT_EQ(run(id).state, model::RunState::queued);
  set(-std::chrono::hours(1));
  for (int i = 0; i < 3; ++i) tick(std::chrono::seconds(1));
  ASSERT_EQ(run(id).epoch, 3);
  report(with_rank(nodes(id)[0], model::RankState::running));
  engine_.lose_kills = true;
  ASSERT_TRUE(controller_->stop(id, ""));
  for (int i = 0; i < 20; ++i) tick(std::chrono::seconds(1));
  const auto kills = engine_.kills.size();
  EXPECT_GT(kills, 0u);
  set(-std::chrono::hours(1));
  // The stop limit counts again from when the daemon listens again.
  for (int i = 0; i < 16; ++i) tick(std::chrono::seconds(1));
  EXPECT_GT(engine_.kills.size(), kills) << "it is killed again";
}

TEST_F(ControllerTest, AfterAnotherBootNothingWaitsForAMomentOfAClockThatWasSetBack) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  controller_.reset();
  clock_.set(-std::chrono::hours(1));
  clock_.boot = "second";
  engine_.agentless.insert(model::nodes_of(store_.load().value(), {id, 1}).front()->id);
  restart();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(run(id).epoch, 2);
  EXPECT_EQ(run(id).time_used, Duration(0));
}

TEST_F(ControllerTest, AStopThatIsNotObeyedEndsByForce) {
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  const model::NodeId node = nodes(id)[0];
  report(with_rank(node, model::RankState::running));
  ASSERT_TRUE(controller_->stop(id, "enough"));
  EXPECT_EQ(report(with_rank(node, model::RankState::running)).kind, model::CommandKind::stop);
  for (int i = 0; i < 15; ++i) tick(std::chrono::seconds(1));
  EXPECT_THAT(engine_.kills, ElementsAre(node));
  tick();
  EXPECT_EQ(run(id).state, model::RunState::cancelled);
  EXPECT_THAT(run(id).reason, AllOf(HasSubstr("stopped"), HasSubstr("enough")));
}

TEST_F(ControllerTest, WatchersHearOfEachChange) {
  std::vector<std::int64_t> versions;
  controller_->subscribe([&](const model::RunId& id, std::int64_t version) {
    EXPECT_EQ(version, controller_->state().runs.at(id).version);
    versions.push_back(version);
  });
  const model::RunId id = controller_->submit(spec_of(1, 1), {}).value();
  report(with_rank(nodes(id)[0], model::RankState::running));
  tick();
  EXPECT_THAT(versions, ElementsAre(1, 2));
}

TEST_F(ControllerTest, AgentsOfUnknownNodesGoOn) {
  const model::Command command = report(word({{{"demo", 9}, 1}, 0}, model::NodeState::ready));
  EXPECT_EQ(command.kind, model::CommandKind::none);
  EXPECT_TRUE(command.orphaned);
}

TEST_F(ControllerTest, UnknownRunsCannotBeStopped) {
  EXPECT_EQ(controller_->stop({"demo", 9}, "").error().code, Code::not_found);
}

}  // namespace
}  // namespace lockstep::controller
