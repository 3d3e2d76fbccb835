// Hosts that join a cluster of own machines, report what they are, and leave it.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map/query.h"
#include "platform/core/step/decider.h"
#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_world::facts_of;
using testing_world::spec_of;

const std::string kClaim(64, 'a'), kOtherClaim(64, 'b');

class StepHostsTest : public ::testing::Test {
 protected:
  StepHostsTest() { world.state.hosts_make_map = true; }

  void join(const std::string& host, int devices, const std::string& pod = "") {
    world.apply_event_ok(model::AdmitHost{host, pod, number_of(host), kClaim, "m-" + host});
    describe(host, devices);
    world.apply_event_ok(model::HostsSeen{});
  }
  void describe(const std::string& host, int devices) {
    world.apply_event_ok(model::DescribeHost{host, facts_of(host, devices)});
  }
  int number_of(const std::string& host) const {
    const auto row = world.state.hosts.find(host);
    return row == world.state.hosts.end() ? 0 : row->second.credential;
  }
  Error refusal(const model::Event& event) {
    const auto happened = world.apply_event(event);
    return happened ? Error{Code::internal, "it was not refused"} : happened.error();
  }
  std::size_t devices_on_map(const std::string& host) const {
    const map::Host* found = map::find_host(world.state.map, host);
    return found ? map::device_count(*found) : 0;
  }
  const model::HostRow& row(const std::string& host) const { return world.state.hosts.at(host); }
  std::vector<std::string> events_of(const std::string& host) const {
    std::vector<std::string> events;
    for (const model::AuditEntry& entry : row(host).audit) events.push_back(entry.what);
    return events;
  }
  void end(const model::RunId& run) {
    world.apply_event_ok(model::StopRun{run, ""});
    world.all_terminated(run);
  }

  testing_world::World world{map::ClusterMap{}};
};

// --- The credential ---

TEST_F(StepHostsTest, AJoinTokenWorksOnceAndARepeatedCallHasTheSameResult) {
  const model::AdmitHost call{"a", "", 0, kClaim, "m1"};
  world.apply_event_ok(call);
  EXPECT_EQ(row("a").credential, 1);
  EXPECT_EQ(row("a").machine, "m1");
  EXPECT_EQ(row("a").joined, world.now);
  const model::State before = world.state;
  world.apply_event_ok(call);
  EXPECT_EQ(world.state.hosts, before.hosts);
  const Error refused = refusal(model::AdmitHost{"a", "", 0, kOtherClaim, "m2"});
  EXPECT_EQ(refused.code, Code::denied);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("the join token was used already"),
                                     HasSubstr("`lockstep host token a`")));
  EXPECT_EQ(row("a").machine, "m1");
}

TEST_F(StepHostsTest, AHostThatJoinsAgainStaysOnTheMapAndItsFormerCredentialIsVoid) {
  join("a", 2);
  world.apply_event_ok(model::AdmitHost{"a", "far", 1, kOtherClaim, "m2"});
  EXPECT_EQ(row("a").credential, 2);
  EXPECT_EQ(devices_on_map("a"), 2u);
  EXPECT_EQ(world.state.map.pods.at(0).name, "far");
}

TEST_F(StepHostsTest, ATokenOfBeforeARemovalIsVoid) {
  join("a", 2);
  world.apply_event_ok(model::RemoveHost{"a", "ann"});
  EXPECT_EQ(row("a").credential, 2);
  for (const int number : {0, 1})
    EXPECT_EQ(refusal(model::AdmitHost{"a", "", number, kClaim, "m"}).code, Code::denied);
  join("a", 3);
  EXPECT_EQ(row("a").credential, 3);
  EXPECT_EQ(devices_on_map("a"), 3u);
}

TEST_F(StepHostsTest, BadNamesPodsAndClaimsAreRefused) {
  EXPECT_THAT(refusal(model::AdmitHost{"../a", "", 0, kClaim, ""}).message,
              HasSubstr("'../a' is not an id"));
  EXPECT_THAT(refusal(model::AdmitHost{"a", "p q", 0, kClaim, ""}).message, HasSubstr("pod: "));
  for (const std::string& claim : {std::string(), std::string("abc"), std::string(64, 'X')})
    EXPECT_THAT(refusal(model::AdmitHost{"a", "", 0, claim, ""}).message, HasSubstr("claim: "));
  EXPECT_TRUE(world.state.hosts.empty());
}

TEST_F(StepHostsTest, NoHostJoinsAClusterWhoseMapIsDeclared) {
  world.state.hosts_make_map = false;
  world.state.engine = "slurm";
  for (const model::Event& event : std::vector<model::Event>{
           model::AdmitHost{"a", "", 0, kClaim, ""}, model::DescribeHost{"a", facts_of("a", 1)},
           model::RemoveHost{"a", ""}})
    EXPECT_THAT(refusal(event).message, AllOf(HasSubstr("slurm"), HasSubstr("no host joins")));
}

// --- The map ---

TEST_F(StepHostsTest, TheMapHasTheHostsThatReportedByPodAndName) {
  world.state.map.name = "lab";
  world.state.map.measured.emplace().fabric = "tcp over eth1";
  join("c", 1, "west");
  join("b", 2);
  join("a", 3);
  world.apply_event_ok(model::AdmitHost{"d", "", 0, kClaim, ""});
  const map::ClusterMap& map = world.state.map;
  ASSERT_TRUE(map::check(map));
  ASSERT_EQ(map.pods.size(), 2u);
  EXPECT_EQ(map.pods[0].name, "pod-0");
  EXPECT_EQ(map.pods[0].leaves.at(0).hosts.at(0), facts_of("a", 3));
  EXPECT_EQ(map.pods[0].leaves.at(0).hosts.at(1), facts_of("b", 2));
  EXPECT_EQ(map.pods[1].name, "west");
  EXPECT_EQ(map.pods[1].leaves.at(0).hosts.at(0), facts_of("c", 1));
  EXPECT_EQ(map.name, "lab");
  EXPECT_EQ(map.measured->fabric, "tcp over eth1") << "what no host reports stays";
  EXPECT_THAT(events_of("a"), ::testing::ElementsAre("joined", "has 3 devices"));
}

TEST_F(StepHostsTest, TheSameFactsChangeNothing) {
  join("a", 2);
  EXPECT_TRUE(
      step(world.state, model::DescribeHost{"a", facts_of("a", 2)}, world.now)->changes.empty());
}

TEST_F(StepHostsTest, FactsThatNoMapCanHaveAreRefused) {
  world.apply_event_ok(model::AdmitHost{"a", "", 0, kClaim, ""});
  map::Host facts = facts_of("a", 2);
  facts.islands[0].devices[1].number = 0;
  const Error refused = refusal(model::DescribeHost{"a", facts});
  EXPECT_EQ(refused.code, Code::invalid);
  EXPECT_THAT(refused.message,
              AllOf(HasSubstr("the facts of host a"), HasSubstr("the host has gpu 0 already")));
  EXPECT_EQ(refusal(model::DescribeHost{"a", facts_of("b", 2)}).code, Code::invalid);
  facts = facts_of("a", 1);
  facts.name = "a\x1b[2J";
  EXPECT_THAT(refusal(model::DescribeHost{"a", facts}).message, HasSubstr("facts.name"));
  EXPECT_EQ(devices_on_map("a"), 0u);
}

TEST_F(StepHostsTest, OnlyAHostThatHasJoinedIsDescribed) {
  EXPECT_EQ(refusal(model::DescribeHost{"a", facts_of("a", 1)}).code, Code::not_found);
  join("a", 1);
  world.apply_event_ok(model::RemoveHost{"a", ""});
  const Error refused = refusal(model::DescribeHost{"a", facts_of("a", 1)});
  EXPECT_EQ(refused.code, Code::not_found);
  EXPECT_THAT(refused.message, HasSubstr("`lockstep host token a`"));
}

TEST_F(StepHostsTest, AHostTakesNoRunUntilTheEngineHasListedItsNodes) {
  const model::RunId run = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::AdmitHost{"a", "", 0, kClaim, ""});
  describe("a", 1);
  EXPECT_THAT(world.run(run).reason, HasSubstr("its nodes are not known yet"));
  const model::Orphan orphan{.id = {"0f", {{{"act", 1}, 1}, 0}}, .devices = {"a", {0}}};
  world.apply_event_ok(model::OrphansListed{{orphan}});
  world.apply_event_ok(model::HostsSeen{});
  EXPECT_THAT(world.run(run).reason, HasSubstr("waits for orphan act/1"));
}

// --- Runs ---

TEST_F(StepHostsTest, ARunThatNoHostCanHoldWaitsUntilEnoughHaveJoined) {
  const model::RunId run = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(run).reason,
            "waits for hosts to join: needs 2 hosts with 2 devices each, and no host has joined "
            "yet");
  join("a", 4);
  EXPECT_EQ(world.run(run).reason,
            "waits for hosts to join: needs 2 hosts with 2 devices each, and the map has 1 host "
            "with 4 devices in all, at most 4 on one; --nodes 1 --devices 4 would fit now");
  const model::RunId other = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(other).state, model::RunState::starting) << "it blocks no other run";
  join("b", 2);
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST_F(StepHostsTest, ADryRunTellsThatARunWouldWaitForHosts) {
  const auto result = dry_run(world.state, {spec_of(1, 1), {}}, world.now);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->reason, HasSubstr("no host has joined yet"));
  EXPECT_FALSE(result->starts.expected);
}

TEST_F(StepHostsTest, AnEndedRunThatIsTooLargeNowIsResumedAndWaits) {
  join("a", 2);
  const model::RunId run = world.submit(spec_of(1, 2));
  end(run);
  world.apply_event_ok(model::RemoveHost{"a", ""});
  world.apply_event_ok(model::ResumeRun{run});
  EXPECT_THAT(world.run(run).reason, HasSubstr("waits for hosts to join"));
}

TEST_F(StepHostsTest, OtherDevicesCountOnceTheRunsOnTheHostHaveEnded) {
  join("a", 2);
  const model::RunId first = world.submit(spec_of(1, 1));
  world.all_running(first);
  describe("a", 4);
  EXPECT_EQ(devices_on_map("a"), 2u);
  const model::RunId second = world.submit(spec_of(1, 1));
  EXPECT_THAT(world.run(second).reason,
              AllOf(HasSubstr("a is cordoned"), HasSubstr("its devices have changed")));
  end(first);
  EXPECT_EQ(devices_on_map("a"), 2u);
  world.advance_time(seconds(1));
  EXPECT_EQ(devices_on_map("a"), 4u);
  EXPECT_FALSE(row("a").next_facts);
  EXPECT_EQ(world.run(second).state, model::RunState::starting);
  EXPECT_EQ(events_of("a").back(), "has 4 devices, it had 2 devices");
}

TEST_F(StepHostsTest, DevicesThatComeBackBeforeTheRunsEndedChangeNothing) {
  join("a", 2);
  world.all_running(world.submit(spec_of(1, 1)));
  describe("a", 1);
  describe("a", 2);
  EXPECT_FALSE(row("a").next_facts);
  const model::RunId second = world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run(second).state, model::RunState::starting);
}

TEST_F(StepHostsTest, AnotherAddressCountsAtOnce) {
  join("a", 2);
  world.all_running(world.submit(spec_of(1, 1)));
  map::Host facts = facts_of("a", 2);
  facts.address = "10.0.0.7";
  world.apply_event_ok(model::DescribeHost{"a", facts});
  EXPECT_EQ(map::address_of(*map::find_host(world.state.map, "a")), "10.0.0.7");
}

// A gang holds the devices of a node that has ended until its last node has.
TEST_F(StepHostsTest, AHostKeepsItsDevicesWhileANodeOfTheSameGangRunsElsewhere) {
  join("a", 2);
  join("b", 2);
  const model::RunId run = world.submit(spec_of(2, 2));
  world.all_running(run);
  world.apply_event_ok(testing_world::node_gone(world.node(run, 0)));
  describe("a", 4);
  world.advance_time(seconds(1));
  EXPECT_EQ(devices_on_map("a"), 2u);
  world.apply_event_ok(testing_world::node_gone(world.node(run, 1)));
  world.advance_time(seconds(1));
  EXPECT_EQ(devices_on_map("a"), 4u);
}

// --- Removal ---

TEST_F(StepHostsTest, AHostWithARunIsNotRemoved) {
  join("a", 2);
  join("b", 2);
  const model::RunId run = world.submit(spec_of(1, 1));
  const Error refused = refusal(model::RemoveHost{"a", "ann"});
  EXPECT_EQ(refused.code, Code::invalid);
  EXPECT_THAT(refused.message, AllOf(HasSubstr("drain it first"), HasSubstr("demo/1"),
                                     HasSubstr("`lockstep host drain a`")));
  end(run);
  world.apply_event_ok(model::SetHost{"a", model::HostState::drained, "ann", "its fan is loud"});
  world.apply_event_ok(model::RemoveHost{"a", "ann"});
  EXPECT_EQ(devices_on_map("a"), 0u);
  EXPECT_EQ(devices_on_map("b"), 2u);
  EXPECT_EQ(row("a").audit.back().what, "removed");
  EXPECT_EQ(row("a").audit.back().by, "ann");
  EXPECT_EQ(row("a").state, model::HostState::open) << "if it joins again, it takes runs";
  world.apply_event_ok(model::RemoveHost{"a", "bob"});
  EXPECT_EQ(row("a").credential, 2) << "the second removal changes nothing";
  EXPECT_EQ(refusal(model::RemoveHost{"c", ""}).code, Code::not_found);
}

TEST_F(StepHostsTest, AHostToWhichARunMovesIsNotRemoved) {
  join("a", 2);
  join("b", 2);
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.state.attempts.at({run, 1}).state = model::AttemptState::draining;
  world.state.attempts.at({run, 1}).cause = model::Cause::moved;
  world.state.attempts.at({run, 1}).draining = world.now;
  world.state.attempts.at({run, 1}).move_destination = {{"b", {0}}};
  EXPECT_THAT(refusal(model::RemoveHost{"b", ""}).message, HasSubstr("demo/1 holds devices"));
}

TEST_F(StepHostsTest, AHostWithAnOrphanIsNotRemoved) {
  join("a", 2);
  const model::Orphan orphan{.id = {"0f", {{{"act", 1}, 1}, 0}}, .devices = {"a", {0}}};
  world.apply_event_ok(model::OrphansListed{{orphan}});
  EXPECT_THAT(refusal(model::RemoveHost{"a", ""}).message,
              HasSubstr("orphan act/1 holds devices of host a"));
}

TEST_F(StepHostsTest, TheNodesOfALostHostCountAsGone) {
  join("a", 2);
  join("b", 2);
  auto spec = spec_of(2, 1);
  spec.rank_loss_retries = 1;
  const model::RunId run = world.submit(spec);
  world.all_running(run);
  world.apply_event_ok(model::RemoveHost{"a", "ann", true});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("host a was removed as lost by ann"));
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).state, model::NodeState::released);
  world.apply_event_ok(testing_world::node_gone(world.node(run, 1)));
  EXPECT_THAT(world.run(run).reason, HasSubstr("waits for hosts to join"));
  EXPECT_TRUE(row("a").losses.empty());
  EXPECT_EQ(row("a").audit.back().what, "removed as lost");
  join("c", 1);
  EXPECT_EQ(world.attempt(run).id.epoch, 2);
}

// --- A host that is declared dead ---

TEST_F(StepHostsTest, TheNodesOfADeadHostCountAsGoneAndItStaysAMember) {
  join("a", 2);
  join("b", 2);
  const model::RunId run = world.submit(spec_of(2, 1));
  world.all_running(run);
  world.apply_event_ok(model::HostDead{"a", "ann"});
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("host a was declared dead by ann"));
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).state, model::NodeState::released);
  EXPECT_EQ(model::command_for(world.state, {"", world.node(run, 0)}).kind,
            model::CommandKind::leave);
  world.apply_event_ok(testing_world::node_gone(world.node(run, 1)));
  EXPECT_EQ(world.attempt(run).state, model::AttemptState::ended);
  EXPECT_EQ(row("a").credential, 1) << "its service may call again";
  EXPECT_EQ(devices_on_map("a"), 2u);
  EXPECT_THAT(row("a").unavailable, HasSubstr("once its host service calls"));
  EXPECT_EQ(row("a").audit.back().what, "declared dead");
  EXPECT_EQ(row("a").audit.back().by, "ann");
  world.apply_event_ok(model::HostsSeen{});
  EXPECT_EQ(world.attempt(run).id.epoch, 2);
}

TEST_F(StepHostsTest, ADeadHostFreesTheDevicesOfItsGivenUpNodes) {
  join("a", 2);
  const model::RunId run = world.submit(spec_of(1, 1));
  world.all_running(run);
  world.apply_event_ok(model::StopRun{run, "enough"});
  world.now += seconds(60);
  world.apply_event_ok(model::Tick{.silent_hosts = {"a"}});
  ASSERT_EQ(world.state.given_up.size(), 1u);
  EXPECT_THAT(refusal(model::RemoveHost{"a", ""}).message,
              HasSubstr("given-up node of demo/1 holds devices of host a"));
  world.apply_event_ok(model::HostDead{"a", ""});
  EXPECT_TRUE(world.state.given_up.empty());
  world.apply_event_ok(model::RemoveHost{"a", ""});
  EXPECT_EQ(refusal(model::HostDead{"a", ""}).code, Code::not_found);
}

// --- The kept scheduler ---

TEST_F(StepHostsTest, TheKeptSchedulerFollowsTheMap) {
  Decider decider(world.state);
  const auto handle = [&](const model::Event& event) {
    const Outcome outcome = decider.propose(event, world.now).value();
    EXPECT_EQ(outcome.changes, step(decider.state(), event, world.now)->changes);
    decider.accept(outcome.changes);
  };
  handle(model::SubmitRun{spec_of(1, 4), {}});
  handle(model::AdmitHost{"a", "", 0, kClaim, ""});
  handle(model::DescribeHost{"a", facts_of("a", 2)});
  EXPECT_THAT(decider.scheduler().waiting().at(0).reason.line(), HasSubstr("at most 2 on one"));
  handle(model::DescribeHost{"a", facts_of("a", 4)});
  handle(model::HostsSeen{});
  EXPECT_TRUE(decider.scheduler().waiting().empty());
  EXPECT_EQ(decider.state().runs.at({"demo", 1}).state, model::RunState::starting);
}

// --- Labels ---

TEST_F(StepHostsTest, ARunGetsAHostWithTheLabelsThatItAsksFor) {
  join("a", 2);
  join("b", 2);
  world.apply_event_ok(model::LabelHost{"b", {{"rack", "a3"}, {"zone", "z"}}, "ann"});
  EXPECT_EQ(map::find_host(world.state.map, "b")->labels,
            (map::Labels{{"rack", "a3"}, {"zone", "z"}}));
  model::RunSpec spec = spec_of(1, 1);
  spec.needs.labels = map::Labels{{"rack", "a3"}};
  for (int i = 0; i < 3; ++i) world.apply_event_ok(model::SubmitRun{spec, {}});
  for (int number : {1, 2}) EXPECT_EQ(world.state.nodes.at({{{"demo", number}, 1}, 0}).host, "b");
  EXPECT_THAT(world.state.runs.at({"demo", 3}).reason,
              HasSubstr("1 host with 1 free device, label rack=a3"))
      << "the other host has room, and not the label";
}

TEST_F(StepHostsTest, LabelsThatNoHostHasAreRefusedWithThoseThatThereAre) {
  join("a", 2);
  world.apply_event_ok(model::LabelHost{"a", {{"rack", "a3"}}, "ann"});
  model::SubmitRun submission{spec_of(1, 1), {}};
  submission.spec.needs.labels = map::Labels{{"rack", "a4"}};
  EXPECT_THAT(refusal(submission).message,
              AllOf(HasSubstr("no host has rack=a4"), HasSubstr("hosts have rack=a3")));
  submission.spec.needs.labels = map::Labels{{"row", "a3"}};
  EXPECT_THAT(refusal(submission).message, HasSubstr("no host has a label row"));
  submission.spec.needs.labels = map::Labels{{"r k", "a3"}};
  EXPECT_THAT(refusal(submission).message, HasSubstr("'r k' is no word of a label"));
}

TEST_F(StepHostsTest, LabelsStayWithTheHostUntilItIsRemoved) {
  join("a", 2);
  world.apply_event_ok(model::LabelHost{"a", {{"rack", "a3"}, {"zone", "z"}}, "ann"});
  world.apply_event_ok(model::LabelHost{"a", {{"zone", ""}}, "bob"});
  EXPECT_THAT(events_of("a"),
              ::testing::IsSupersetOf({"label rack=a3, label zone=z", "no label zone"}));
  describe("a", 4);
  world.apply_event_ok(model::AdmitHost{"a", "far", 1, kOtherClaim, "m2"});
  EXPECT_EQ(map::find_host(world.state.map, "a")->labels, (map::Labels{{"rack", "a3"}}));
  world.apply_event_ok(model::RemoveHost{"a", "ann"});
  EXPECT_EQ(refusal(model::LabelHost{"a", {{"rack", "a3"}}, ""}).code, Code::not_found);
  join("a", 2);
  EXPECT_TRUE(map::find_host(world.state.map, "a")->labels.empty());
}

TEST_F(StepHostsTest, MeasurementsStayOnTheMapWhileHostsComeAndGo) {
  join("a", 2);
  map::Measured measured;
  measured.fabric = "tcp over eth1";
  measured.between_hosts = map::MeasuredLevel{12.5, 3, 9.4};
  world.apply_event_ok(model::SetMeasured{measured});
  EXPECT_EQ(world.state.map.measured, measured);
  join("b", 2);
  EXPECT_EQ(world.state.map.measured, measured);
  measured.between_hosts->gbit_per_second = -1;
  EXPECT_THAT(refusal(model::SetMeasured{measured}).message, HasSubstr("gbit_per_second"));
  EXPECT_EQ(world.state.map.measured->between_hosts->gbit_per_second, 9.4);
}

TEST(StepEngines, AnAttemptHasTheEngineAndTheLeaseOfItsHosts) {
  map::ClusterMap map = testing_world::map_of(1, 1);
  map.pods.push_back({.name = {}, .between_leaves = {}, .leaves = {{"", {facts_of("s", 2)}}}});
  map.pods[0].engine = model::kLocalEngine;
  map.pods[1].engine = "slurm";
  testing_world::World world(std::move(map));
  world.state.engine = "local,slurm";
  const model::RunId here = world.submit(spec_of(1, 1)), there = world.submit(spec_of(1, 2));
  world.advance_time(Duration(0));
  EXPECT_EQ(world.attempt(here).engine, "local");
  EXPECT_FALSE(world.attempt(here).lease);
  EXPECT_EQ(world.attempt(there).engine, "slurm");
  EXPECT_TRUE(world.attempt(there).lease) << "its agents may be cut off from the daemon";
  for (const char* engine : {"", "local", "slurm", "local,slurm"})
    EXPECT_TRUE(model::has_engine(world.state, engine)) << engine;
  EXPECT_FALSE(model::has_engine(world.state, "hosts"));
}

TEST_F(StepHostsTest, HostsJoinBesideThoseOfAnotherEngine) {
  world.state.engine = "slurm,hosts";
  world.state.map.pods = {{"spine", {}, {{"leaf", {facts_of("s1", 2)}}}, "slurm"}};
  join("own", 4, "lab");
  EXPECT_EQ(map::engine_of(world.state.map, "own"), "hosts");
  EXPECT_EQ(map::engine_of(world.state.map, "s1"), "slurm");
  EXPECT_EQ(map::find_host(world.state.map, "own")->labels.at("engine"), "hosts");
  EXPECT_THAT(refusal(model::AdmitHost{"s1", "", 0, kClaim, "m"}).message,
              AllOf(HasSubstr("the engine slurm has a host 's1'"), HasSubstr("another name")));
  const model::RunId whole = world.submit(spec_of(1, 4));
  world.advance_time(Duration(0));
  EXPECT_EQ(world.attempt(whole).engine, "hosts");
  end(whole);
  world.apply_event_ok(model::RemoveHost{"own", ""});
  EXPECT_EQ(map::hosts(world.state.map).size(), 1u);
}

TEST_F(StepHostsTest, TheMapOfAFileTakesNoMeasurements) {
  world.state.hosts_make_map = false;
  EXPECT_EQ(refusal(model::SetMeasured{}).code, Code::invalid);
}

}  // namespace
}  // namespace lockstep::step
