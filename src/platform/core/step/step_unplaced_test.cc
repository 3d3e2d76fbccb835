// Attempts whose hosts the engine chooses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map/query.h"
#include "platform/core/step/starting/attempt_placement.h"
#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/starting/host_choice.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_world::map_of;
using testing_world::spec_of;

class StepUnplacedTest : public testing_world::StepTest {
 protected:
  // Two nodes of two devices, without hosts.
  StepUnplacedTest() {
    auto spec = spec_of(2, 2);
    spec.not_before = world.now + hours(1);
    run = world.submit(spec);
    Draft draft(world.state, world.now);
    start_attempt(draft, {run, {{"", {0, 1}}, {"", {0, 1}}}});
    for (const model::Change& change : draft.finish().changes) model::apply(world.state, change);
  }
  const model::Node& node(int index) const { return world.state.nodes.at(world.node(run, index)); }
  void see(int index, const model::Observation& seen) {
    world.apply_event_ok(model::NodeSeen{world.node(run, index), seen});
  }

  model::RunId run;
};

TEST_F(StepUnplacedTest, TheEngineNamesTheHostOnce) {
  EXPECT_FALSE(world.attempt(run).is_placed);
  EXPECT_EQ(node(0).host, "");
  see(0, {.phase = model::NodePhase::pending, .reason = "Resources"});
  EXPECT_EQ(node(0).host, "");
  EXPECT_THAT(world.run(run).reason, HasSubstr("Resources"));
  see(0, {.phase = model::NodePhase::starting, .host = "b"});
  EXPECT_EQ(node(0).host, "b");
  see(0, {.host = "a"});
  EXPECT_EQ(node(0).host, "b");
}

TEST_F(StepUnplacedTest, TheReasonOfTheQueueEndsAlsoIfTheRanksRunFirst) {
  for (int index : {0, 1}) see(index, {.phase = model::NodePhase::pending, .reason = "Resources"});
  world.all_running(run);
  for (int index : {0, 1}) see(index, {.host = "b"});
  EXPECT_EQ(world.run(run).reason, "");
}

TEST_F(StepUnplacedTest, ItsRanksRunAndSucceed) {
  see(0, {.host = "b"});
  see(1, {.host = "a"});
  world.all_running(run);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  for (const model::NodeId& id : world.nodes(run))
    world.apply_event_ok(world.ended(id, model::RankState::exited, 0));
  world.all_terminated(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
}

TEST_F(StepUnplacedTest, ItHoldsItsHostsOnceTheyAreKnown) {
  see(0, {.host = "a"});
  const auto small = world.submit(spec_of(1, 1));
  ASSERT_EQ(world.run(small).state, model::RunState::starting);
  EXPECT_EQ(world.state.nodes.at(world.node(small, 0)).host, "b");
  EXPECT_EQ(world.run(world.submit(spec_of(2, 1))).state, model::RunState::queued);
}

TEST_F(StepUnplacedTest, ALossNamesTheHostThatTheSameObservationNames) {
  see(0, {.phase = model::NodePhase::gone,
          .reason = "down",
          .blame = model::EndBlame::host,
          .host = "a"});
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 on host a"));
  EXPECT_EQ(world.state.hosts.at("a").losses.size(), 1u);
}

// The job ends with its first host, and the end of the other node has no reason yet.
TEST_F(StepUnplacedTest, AFailureOfTheFirstHostCountsThoughItsRanksHadEnded) {
  see(0, {.host = "a"});
  see(1, {.host = "b"});
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  see(0, {.phase = model::NodePhase::gone, .reason = "a is down", .blame = model::EndBlame::host});
  see(1, {.has_agent = false});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 on host a ended: a is down"));
  EXPECT_EQ(world.state.hosts.at("a").losses.size(), 1u);
  EXPECT_FALSE(world.state.hosts.contains("b")) << "its engine ended the node";
}

TEST_F(StepUnplacedTest, AFailureOfAnotherHostCostsNothingIfItsRanksHadEnded) {
  see(0, {.host = "a"});
  see(1, {.host = "b"});
  world.all_running(run);
  world.apply_event_ok(world.ended(world.node(run, 1), model::RankState::exited, 0));
  see(1, {.phase = model::NodePhase::gone, .reason = "b is down", .blame = model::EndBlame::host});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::none);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  see(0, {.phase = model::NodePhase::gone});
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepUnplacedTest, AFailureOfTheFirstHostAfterAllRanksHaveEndedCostsNothing) {
  see(0, {.host = "a"});
  see(1, {.host = "b"});
  world.all_running(run);
  for (const model::NodeId& id : world.nodes(run))
    world.apply_event_ok(world.ended(id, model::RankState::exited, 0));
  see(0, {.phase = model::NodePhase::gone, .reason = "a is down", .blame = model::EndBlame::host});
  see(1, {.phase = model::NodePhase::gone});
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
  EXPECT_TRUE(world.state.hosts.empty());
}

// The engine could not be asked for a while, so its first list is late.
TEST_F(StepUnplacedTest, NoNodeIsLostBecauseTheFirstListOfItsEngineCameLate) {
  world.advance_time(hours(1));
  see(0, {.phase = model::NodePhase::starting, .host = "a"});
  see(1, {.phase = model::NodePhase::starting, .host = "b"});
  for (int index : {0, 1}) EXPECT_EQ(node(index).last_heartbeat, world.now);
  world.advance_time(std::chrono::seconds(30));
  for (int index : {0, 1}) EXPECT_EQ(node(index).state, model::NodeState::allocated);
  world.all_running(run);
  EXPECT_EQ(world.run(run).state, model::RunState::running);
}

TEST_F(StepUnplacedTest, AnotherReasonOfTheQueueReplacesTheOneBefore) {
  see(0, {.phase = model::NodePhase::pending, .reason = "Resources"});
  see(0, {.phase = model::NodePhase::pending, .reason = "Priority"});
  EXPECT_EQ(node(0).pending_reason, "Priority");
  EXPECT_THAT(world.run(run).reason, HasSubstr("Priority"));
  EXPECT_THAT(world.run(run).reason, Not(HasSubstr("Resources")));
}

TEST_F(StepUnplacedTest, TheReasonOfTheQueueIsDroppedWithTheStartAndWithTheEnd) {
  for (int index : {0, 1}) see(index, {.phase = model::NodePhase::pending, .reason = "Resources"});
  see(0, {.phase = model::NodePhase::starting});
  EXPECT_EQ(node(0).pending_reason, "");
  EXPECT_EQ(node(0).last_heartbeat, world.now);
  EXPECT_THAT(world.run(run).reason, HasSubstr("Resources")) << "node 1 still waits";
  see(1, {.phase = model::NodePhase::gone, .reason = "cancelled"});
  EXPECT_EQ(node(1).pending_reason, "");
  EXPECT_THAT(world.run(run).reason, Not(HasSubstr("waits in the queue of")));
}

TEST_F(StepUnplacedTest, ALossBeforeTheHostIsKnownBlamesNone) {
  see(0, {.phase = model::NodePhase::gone, .reason = "down", .blame = model::EndBlame::host});
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 could not be started"));
  EXPECT_THAT(world.attempt(run).reason, Not(HasSubstr("host")));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepUnplacedTest, AnEndThatIsTheEnginesBlamesNoHost) {
  see(0, {.host = "a"});
  see(1, {.host = "b"});
  world.all_running(run);
  see(0, {.phase = model::NodePhase::gone,
          .reason = "job 7 was cancelled",
          .blame = model::EndBlame::engine});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("node 0 on host a ended: job 7 was cancelled"));
  EXPECT_TRUE(world.state.hosts.empty());
}

// The engine cannot be asked, so that nothing is known of its queue.
TEST_F(StepUnplacedTest, TheLimitsOfTheStartCountFromTheNamingOfTheHosts) {
  world.advance_time(hours(1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::none);
  see(0, {.phase = model::NodePhase::starting, .host = "a"});
  see(1, {.phase = model::NodePhase::starting, .host = "b"});
  world.advance_time(std::chrono::seconds(59));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::none);
  world.advance_time(std::chrono::seconds(1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("did not call within 1m"));
}

TEST_F(StepUnplacedTest, TheLimitOfTheStartCountsFromTheFirstCallsIfTheyComeBeforeTheNames) {
  world.advance_time(hours(1));
  world.all_ready(run);
  for (int i = 0; i < 4; ++i) {
    world.advance_time(std::chrono::seconds(20));
    world.all_ready(run);
  }
  EXPECT_EQ(world.attempt(run).cause, model::Cause::none);
  for (int i = 0; i < 15; ++i) {
    world.all_ready(run);
    world.advance_time(std::chrono::seconds(20));
  }
  EXPECT_EQ(world.attempt(run).cause, model::Cause::launch_failed);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("did not start within 5m"));
}

// The answer to its submission was lost, so it had no job when it was stopped.
TEST_F(StepUnplacedTest, AJobThatIsQueuedAfterTheEndIsCancelled) {
  world.apply_event_ok(model::StopRun{run, ""});
  world.all_terminated(run);
  ASSERT_EQ(world.run(run).state, model::RunState::cancelled);
  see(0, {.phase = model::NodePhase::pending, .reason = "Resources"});
  const int before = world.count<model::KillNode>();
  world.advance_time(std::chrono::seconds(1));
  EXPECT_EQ(world.count<model::KillNode>(), before + 1);
  see(0, {.phase = model::NodePhase::gone});
  world.advance_time(std::chrono::seconds(10));
  EXPECT_EQ(world.count<model::KillNode>(), before + 1);
}

TEST_F(StepUnplacedTest, AnAdoptedOneHasNoHostUntilItIsNamed) {
  const model::AttemptId attempt = world.attempt(run).id;
  testing_world::World other(map_of(2, 2));
  other.state.store.generation = "2222222222222222";
  other.state.engine = "slurm";
  model::OrphansListed listed;
  for (int index = 0; index < 2; ++index)
    listed.orphans.push_back({.id = {"1111111111111111", {attempt, index}},
                              .attempt_record = model::record_of(world.state, attempt),
                              .devices = {"", {0, 1}}});
  other.apply_event_ok(listed);
  other.apply_event_ok(model::AdoptOrphan{run, "root"});
  EXPECT_FALSE(other.attempt(run).is_placed);
  EXPECT_EQ(other.attempt(run).engine, "slurm");
  EXPECT_EQ(other.state.nodes.at(other.node(run, 1)).host, "");
}

// The daemon has several engines, and none of them chooses hosts now.
TEST_F(StepUnplacedTest, AnAdoptedOneWithoutHostsHasTheEngineThatListsIt) {
  const model::AttemptId attempt = world.attempt(run).id;
  testing_world::World other(map_of(2, 2));
  other.state.store.generation = "2222222222222222";
  other.state.engine = "local,slurm";
  model::OrphansListed listed;
  for (int index = 0; index < 2; ++index)
    listed.orphans.push_back({.id = {"1111111111111111", {attempt, index}},
                              .attempt_record = model::record_of(world.state, attempt),
                              .devices = {"", {0, 1}},
                              .engine = "slurm"});
  other.apply_event_ok(listed);
  other.apply_event_ok(model::AdoptOrphan{run, "root"});
  EXPECT_EQ(other.attempt(run).engine, "slurm");
}

// The daemon leaves all hosts to its engine.
class StepEngineChoosesTest : public ::testing::Test {
 protected:
  StepEngineChoosesTest() {
    world.state.engine = "slurm";
    world.state.placing_engine = "slurm";
  }
  std::vector<std::string> excluded_for(const model::RunId& run) const {
    return host_choice_of(world.state, world.attempt(run)).excluded;
  }

  testing_world::World world{map_of(3, 2)};
};

TEST_F(StepEngineChoosesTest, RunsStartWithoutHostsThoughDevicesAreTaken) {
  for (int i = 0; i < 3; ++i) {
    const auto run = world.submit(spec_of(3, 2));
    EXPECT_EQ(world.run(run).state, model::RunState::starting);
    EXPECT_FALSE(world.attempt(run).is_placed);
    EXPECT_EQ(world.attempt(run).engine, "slurm");
    EXPECT_EQ(world.state.nodes.at(world.node(run, 2)).host, "");
  }
}

TEST_F(StepEngineChoosesTest, TheLimitOfAProjectHolds) {
  world.apply_event_ok(model::SetLimit{{model::LimitScope::project, "demo"}, 4});
  const auto first = world.submit(spec_of(2, 2)), second = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  EXPECT_EQ(world.run(second).state, model::RunState::queued);
  EXPECT_THAT(world.run(second).reason, HasSubstr("project demo holds 4 of the 4"));
  world.apply_event_ok(model::StopRun{first, ""});
  world.all_terminated(first);
  EXPECT_EQ(world.run(second).state, model::RunState::starting);
}

TEST_F(StepEngineChoosesTest, TheSettingBoundsTheJobsOfTheEngine) {
  world.state.settings.slurm_jobs_max = 1;
  const auto first = world.submit(spec_of(1, 1)), second = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  EXPECT_EQ(world.run(second).state, model::RunState::queued);
}

TEST_F(StepEngineChoosesTest, AfterARestartWithoutTheOptionTheHostsOfItsRunsAreInUse) {
  const auto first = world.submit(spec_of(2, 1)), second = world.submit(spec_of(1, 1));
  const auto seen_on = [&](const model::RunId& run, int node, const std::string& host) {
    world.apply_event_ok(
        model::NodeSeen{world.node(run, node), {.phase = model::NodePhase::present, .host = host}});
  };
  const auto names = map::hosts(world.state.map);
  seen_on(first, 0, names[0]->id);
  world.state.placing_engine.clear();
  seen_on(first, 1, names[1]->id);
  seen_on(second, 0, names[1]->id);
  const auto large = world.submit(spec_of(2, 1)), small = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(large).state, model::RunState::queued);
  EXPECT_THAT(world.run(large).reason, HasSubstr("hosts of demo/1"));
  ASSERT_EQ(world.run(small).state, model::RunState::starting);
  EXPECT_EQ(world.state.nodes.at(world.node(small, 0)).host, names[2]->id);
  world.apply_event_ok(model::StopRun{first, ""});
  world.all_terminated(first);
  EXPECT_EQ(world.run(large).state, model::RunState::starting);
  for (int node = 0; node < 2; ++node)
    EXPECT_NE(world.state.nodes.at(world.node(large, node)).host, names[1]->id);
}

TEST_F(StepEngineChoosesTest, ARunThatIsHeldDoesNotStart) {
  auto spec = spec_of(1, 1);
  spec.not_before = world.now + hours(1);
  const auto run = world.submit(spec);
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  world.advance_time(hours(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST_F(StepEngineChoosesTest, ARunThatTheHostsCannotHoldIsRefused) {
  const auto refused = world.apply_event(model::SubmitRun{spec_of(1, 3), {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("at most 2 on one"));
}

TEST_F(StepEngineChoosesTest, ADryRunStartsWithoutHosts) {
  const auto result = dry_run(world.state, {spec_of(2, 1), {}}, world.now).value();
  EXPECT_THAT(result.devices,
              ElementsAre(model::HostDevices{"", {0}}, model::HostDevices{"", {0}}));
}

TEST_F(StepEngineChoosesTest, ALostHostIsExcludedIfEnoughOthersAreLeft) {
  const auto small = world.submit(spec_of(2, 2)), large = world.submit(spec_of(3, 2));
  for (const auto& run : {small, large}) {
    EXPECT_THAT(excluded_for(run), IsEmpty());
    world.apply_event_ok(model::NodeSeen{world.node(run, 0),
                                         {.phase = model::NodePhase::gone,
                                          .reason = "NODE_FAIL",
                                          .blame = model::EndBlame::host,
                                          .host = "b"}});
    world.all_terminated(run);
    EXPECT_EQ(world.run(run).epoch, 2) << "it is tried again";
  }
  EXPECT_THAT(excluded_for(small), ElementsAre("b"));
  EXPECT_THAT(excluded_for(large), IsEmpty()) << "it needs all hosts";
}

TEST_F(StepEngineChoosesTest, HostsWithoutItsNeedsAndClosedOnesAreExcluded) {
  auto& hosts = world.state.map.pods[0].leaves[0].hosts;
  for (map::Host& host : hosts) host.islands[0].devices.assign(2, {map::DeviceKind::gpu, 0, {}});
  hosts[0].islands[0].devices.assign(2, {map::DeviceKind::core, 0, {}});
  world.apply_event_ok(model::SetHost{"c", model::HostState::closed, "root", "noise"});
  auto spec = spec_of(1, 1);
  spec.needs.kind = map::DeviceKind::gpu;
  const auto on_gpus = world.submit(spec);
  EXPECT_THAT(excluded_for(on_gpus), ElementsAre("a", "c"));
  EXPECT_TRUE(host_choice_of(world.state, world.attempt(on_gpus)).gpus);
  spec.needs.kind = map::DeviceKind::core;
  const auto on_cores = world.submit(spec);
  EXPECT_THAT(excluded_for(on_cores), ElementsAre("b", "c"));
  EXPECT_FALSE(host_choice_of(world.state, world.attempt(on_cores)).gpus);
}

TEST_F(StepEngineChoosesTest, ARunHasGpusIfItFitsOnThemAndElseCores) {
  auto& hosts = world.state.map.pods[0].leaves[0].hosts;
  for (map::Host& host : hosts) host.islands[0].devices.assign(2, {map::DeviceKind::core, 0, {}});
  hosts[0].islands[0].devices.assign(2, {map::DeviceKind::gpu, 0, {}});
  const auto small = world.submit(spec_of(1, 2)), large = world.submit(spec_of(2, 2));
  EXPECT_TRUE(host_choice_of(world.state, world.attempt(small)).gpus);
  EXPECT_THAT(excluded_for(small), IsEmpty()) << "a job that asks for GPUs gets no other host";
  EXPECT_FALSE(host_choice_of(world.state, world.attempt(large)).gpus);
  EXPECT_THAT(excluded_for(large), ElementsAre("a"));
  const auto refused = world.apply_event(model::SubmitRun{spec_of(3, 2), {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("devices of one kind"));
}

TEST_F(StepEngineChoosesTest, NoBoundIsGivenForAStartWhileTheEngineHasNoHosts) {
  for (map::Pod& pod : world.state.map.pods) pod.engine = "local";
  const auto first = world.submit(spec_of(3, 2)), second = world.submit(spec_of(3, 2));
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  IncrementalScheduler scheduler;
  (void)step(scheduler, world.state, model::Tick{}, world.now);
  ASSERT_EQ(scheduler.waiting().size(), 1u);
  EXPECT_EQ(scheduler.waiting()[0].run, second);
  EXPECT_TRUE(scheduler.start_times()[0].expected);
  EXPECT_EQ(scheduler.start_times()[0].latest, std::nullopt);
}

// Slurm chooses among c and d. Lockstep places runs on a and b.
class StepTwoEnginesTest : public ::testing::Test {
 protected:
  StepTwoEnginesTest() {
    auto& pods = world.state.map.pods;
    pods.push_back(pods[0]);
    pods[0].leaves[0].hosts.resize(2);
    auto& there = pods[1].leaves[0].hosts;
    there.erase(there.begin(), there.begin() + 2);
    pods[0].engine = "local";
    pods[1].engine = "slurm";
    for (map::Pod& pod : pods)
      for (map::Host& host : pod.leaves[0].hosts) host.labels = {{"engine", pod.engine}};
    world.state.engine = "local,slurm";
    world.state.placing_engine = "slurm";
  }
  std::string engine_of(const model::RunId& run) const { return world.attempt(run).engine; }

  testing_world::World world{map_of(4, 2)};
};

TEST_F(StepTwoEnginesTest, EachAttemptNamesTheEngineThatStartsIt) {
  const auto here = world.submit(spec_of(2, 2)), there = world.submit(spec_of(2, 2));
  EXPECT_EQ(engine_of(here), "local");
  EXPECT_TRUE(world.attempt(here).is_placed);
  EXPECT_EQ(world.state.nodes.at(world.node(here, 1)).host, "b");
  EXPECT_EQ(engine_of(there), "slurm");
  EXPECT_FALSE(world.attempt(there).is_placed);
  EXPECT_EQ(world.state.nodes.at(world.node(there, 1)).host, "");
}

TEST_F(StepTwoEnginesTest, ALabelChoosesTheEngine) {
  auto spec = spec_of(1, 1);
  spec.needs.labels = map::Labels{{"engine", "slurm"}};
  EXPECT_EQ(engine_of(world.submit(spec)), "slurm");
  spec.needs.labels = map::Labels{{"engine", "local"}};
  EXPECT_EQ(engine_of(world.submit(spec)), "local");
}

TEST_F(StepTwoEnginesTest, SlurmIsToldOfItsOwnHostsOnly) {
  world.apply_event_ok(model::SetHost{"a", model::HostState::closed, "root", "noise"});
  world.apply_event_ok(model::SetHost{"d", model::HostState::closed, "root", "noise"});
  auto spec = spec_of(1, 1);
  spec.needs.labels = map::Labels{{"engine", "slurm"}};
  const auto run = world.submit(spec);
  EXPECT_THAT(host_choice_of(world.state, world.attempt(run)).excluded, ElementsAre("d"));
}

TEST_F(StepTwoEnginesTest, ARunThatNeitherEngineCanHoldIsRefused) {
  const auto refused = world.apply_event(model::SubmitRun{spec_of(3, 1), {}});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("--nodes 2 --devices 1 would fit"));
}

TEST_F(StepTwoEnginesTest, ADryRunShowsWhereTheRunWouldGo) {
  const auto devices = [&](int nodes) {
    return dry_run(world.state, {spec_of(nodes, 2), {}}, world.now).value().devices;
  };
  EXPECT_THAT(devices(1), ElementsAre(model::HostDevices{"a", {0, 1}}));
  (void)world.submit(spec_of(1, 1));
  EXPECT_THAT(devices(2),
              ElementsAre(model::HostDevices{"", {0, 1}}, model::HostDevices{"", {0, 1}}));
}

TEST_F(StepTwoEnginesTest, TheNextAttemptOfAJobMayStartOnHostsThatAreFreeNow) {
  const auto here = world.submit(spec_of(2, 2)), there = world.submit(spec_of(2, 2));
  world.apply_event_ok(model::StopRun{here, ""});
  world.all_terminated(here);
  EXPECT_EQ(world.run(there).epoch, 1) << "a job stays one";
  world.apply_event_ok(model::NodeSeen{world.node(there, 0),
                                       {.phase = model::NodePhase::gone,
                                        .reason = "NODE_FAIL",
                                        .blame = model::EndBlame::host,
                                        .host = "c"}});
  world.all_terminated(there);
  EXPECT_EQ(world.run(there).epoch, 2);
  EXPECT_EQ(engine_of(there), "local");
}

TEST_F(StepTwoEnginesTest, AJobIsChargedByTheKindsOfDevicesThatItsEngineMayChoose) {
  auto& there = world.state.map.pods[1].leaves[0].hosts;
  for (map::Host& host : there) host.islands[0].devices.assign(2, {map::DeviceKind::core, 0, {}});
  world.apply_event_ok(model::SetRate{.kind = "core", .weight_percent = 50});
  auto spec = spec_of(2, 2);
  spec.needs.labels = map::Labels{{"engine", "slurm"}};
  const auto run = world.submit(spec);
  EXPECT_EQ(world.attempt(run).charge->rate_percent, 200) << "of four cores";
  there[0].labels["device-kind"] = "slow";
  there[1].labels["device-kind"] = "fast";
  world.apply_event_ok(model::SetRate{.kind = "fast", .weight_percent = 400});
  const auto next = world.submit(spec);
  EXPECT_EQ(world.attempt(next).charge->rate_percent, 1600) << "of the largest weight";
  world.now += std::chrono::minutes(5);
  for (int node : {0, 1})
    world.apply_event_ok(model::NodeSeen{
        world.node(next, node),
        {.phase = model::NodePhase::starting, .host = there[static_cast<std::size_t>(node)].id}});
  EXPECT_EQ(world.attempt(next).charge->rate_percent, 1000) << "two of weight 1, two of weight 4";
  EXPECT_EQ(world.run(next).charged, std::chrono::minutes(80)) << "up to then";
}

}  // namespace
}  // namespace lockstep::step
