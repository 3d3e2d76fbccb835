// Changes by users and operators to waiting runs: held runs, priorities, runs that start after
// others or later, hosts and limits; and dry runs.
#include <cstdint>
#include <set>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "platform/core/step/starting/dry_run.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_world::spec_of;

class StepControlTest : public testing_world::StepTest {
 protected:
  // Both hosts are full until it ends.
  model::RunId fill() { return world.submit(spec_of(2, 2)); }
  void end(const model::RunId& run) {
    world.apply_event_ok(model::StopRun{run, ""});
    world.all_terminated(run);
  }
  std::string refusal(const model::Event& event) {
    const auto happened = world.apply_event(event);
    return happened ? "" : happened.error().message;
  }
};

TEST_F(StepControlTest, AHeldRunKeepsNobodyWaitingAndStartsWhenItIsReleased) {
  const model::RunId first = fill();
  const model::RunId held = world.submit(spec_of(2, 2));
  const model::RunId other = world.submit(spec_of(2, 2));
  world.apply_event_ok(model::HoldRun{held, "ann", "the data\nis replaced"});
  EXPECT_THAT(world.run(held).reason,
              AllOf(HasSubstr("held"), HasSubstr("ann"), HasSubstr("the data is replaced")));
  world.apply_event_ok(model::HoldRun{held, "bob", ""});
  EXPECT_THAT(world.run(held).reason,
              AllOf(HasSubstr("held"), HasSubstr("ann"), HasSubstr("the data is replaced")))
      << "it says no other";
  EXPECT_THAT(world.run(other).reason, HasSubstr("waits for demo/1"));
  end(first);
  EXPECT_EQ(world.run(other).state, model::RunState::starting);
  end(other);
  EXPECT_EQ(world.run(held).state, model::RunState::queued);
  world.apply_event_ok(model::ReleaseRun{held, "bob"});
  EXPECT_EQ(world.run(held).state, model::RunState::starting);
  const auto& audit = world.run(held).audit;
  ASSERT_EQ(audit.size(), 2u);
  EXPECT_THAT(audit[0].what, AllOf(HasSubstr("held"), HasSubstr("the data is replaced")));
  EXPECT_EQ(audit[0].by, "ann");
  EXPECT_EQ(audit[1].what, "released");
  EXPECT_EQ(audit[1].by, "bob");
}

TEST_F(StepControlTest, OnlyWhatWaitsCanBeHeld) {
  const model::RunId run = fill();
  EXPECT_THAT(refusal(model::HoldRun{run, "", ""}),
              AllOf(HasSubstr("demo/1 is starting"), HasSubstr("`lockstep stop demo/1`")));
  EXPECT_THAT(refusal(model::HoldRun{{"demo", 7}, "", ""}),
              AllOf(HasSubstr("demo/7"), HasSubstr("`lockstep ps`")));
  EXPECT_EQ(refusal(model::ReleaseRun{run, ""}), "") << "to release twice is no mistake";
}

TEST_F(StepControlTest, AHeldRunThatIsStoppedIsHeldNoMore) {
  fill();
  const model::RunId held = world.submit(spec_of(1, 1));
  world.apply_event_ok(model::HoldRun{held, "", ""});
  world.apply_event_ok(model::StopRun{held, ""});
  EXPECT_FALSE(world.run(held).held);
  world.apply_event_ok(model::ResumeRun{held});
  EXPECT_THAT(world.run(held).reason, HasSubstr("waits for demo/1"));
}

TEST_F(StepControlTest, ANewHeadOfTheQueueChangesNoRowsOfTheRunsBehindIt) {
  const model::RunId first = fill();
  for (int i = 0; i < 10; ++i) {
    world.now += seconds(1);
    world.submit(spec_of(2, 2));
  }
  const auto stopped = step(world.state, model::StopRun{{"demo", 2}, ""}, world.now).value();
  std::set<std::int64_t> changed;
  for (const model::Change& change : stopped.changes)
    if (const auto* run = std::get_if<model::Run>(&change)) changed.insert(run->id.number);
  EXPECT_EQ(changed, (std::set<std::int64_t>{2, 3})) << "the old head and the new one";
  end(first);
}

TEST_F(StepControlTest, AHigherPriorityStartsFirst) {
  const model::RunId first = fill();
  const model::RunId second = world.submit(spec_of(2, 2));
  world.now += seconds(1);
  const model::RunId third = world.submit(spec_of(2, 2));
  EXPECT_THAT(world.run(third).reason, HasSubstr("behind other runs"));
  world.apply_event_ok(model::SetPriority{third, 10, "ann"});
  EXPECT_THAT(world.run(third).reason, HasSubstr("waits for demo/1"));
  EXPECT_THAT(world.run(second).reason, HasSubstr("behind other runs"));
  EXPECT_THAT(world.run(third).audit.back().what,
              AllOf(HasSubstr("priority 10"), HasSubstr("was 0")));
  end(first);
  EXPECT_EQ(world.run(third).state, model::RunState::starting);
  EXPECT_THAT(refusal(model::SetPriority{second, 101, ""}), HasSubstr("from -100 to 100, got 101"));
  EXPECT_THAT(refusal(model::SetPriority{first, 1, ""}), HasSubstr("demo/1 has ended"));
}

TEST_F(StepControlTest, TagsAndTheNoteOfARunAreChangedAtAnyTime) {
  const model::RunId run = fill();
  world.apply_event_ok(model::AnnotateRun{run, {{"stage", "first"}, {"owner", "ann"}}, {}});
  end(run);
  ASSERT_TRUE(model::is_final(world.run(run).state));
  const auto version = world.run(run).version;
  world.apply_event_ok(model::AnnotateRun{run, {{"stage", ""}, {"owner", "bob"}}, "good"});
  EXPECT_EQ(world.run(run).tags, (model::Tags{{"owner", "bob"}}));
  EXPECT_EQ(world.run(run).note, "good");
  EXPECT_GT(world.run(run).version, version);
  world.apply_event_ok(model::AnnotateRun{run, {}, ""});
  EXPECT_EQ(world.run(run).note, "");
  EXPECT_EQ(world.run(run).tags.size(), 1U);
}

TEST_F(StepControlTest, TagsAndTheNoteOfARunHaveBounds) {
  const model::RunId run = fill();
  const auto of_tag = [&](const std::string& key, const std::string& value) {
    return refusal(model::AnnotateRun{run, {{key, value}}, {}});
  };
  EXPECT_THAT(of_tag("", "x"), HasSubstr("a key has 1 to 64"));
  EXPECT_THAT(of_tag(std::string(65, 'k'), "x"), HasSubstr("a key has 1 to 64"));
  EXPECT_THAT(of_tag("a b", "x"), HasSubstr("a key has 1 to 64"));
  EXPECT_THAT(of_tag("k-", "x"), HasSubstr("no '-' at its end"));
  EXPECT_THAT(of_tag("k", std::string(257, 'v')), HasSubstr("at most 256 bytes, it has 257"));
  EXPECT_THAT(of_tag("k", "a\nb"), HasSubstr("text of one line"));
  EXPECT_EQ(of_tag(std::string(64, 'k'), std::string(256, 'v')), "");
  model::Tags many;
  for (int i = 0; i < 50; ++i) many[format("k{}", i)] = "v";
  EXPECT_THAT(refusal(model::AnnotateRun{run, many, {}}), HasSubstr("at most 50"));
  EXPECT_THAT(refusal(model::AnnotateRun{run, {}, std::string(4097, 'n')}),
              HasSubstr("may have 4096 bytes, and this one has 4097"));
  EXPECT_THAT(refusal(model::AnnotateRun{run, {}, "\x1b[31m"}), HasSubstr("control characters"));
  EXPECT_EQ(refusal(model::AnnotateRun{run, {}, "two\nlines"}), "");
  EXPECT_THAT(refusal(model::AnnotateRun{{"demo", 99}, {}, "x"}), HasSubstr("demo/99"));
}

TEST_F(StepControlTest, ARunThatFollowsOthersStartsOnceTheyHaveSucceeded) {
  const model::RunId first = world.submit(spec_of(1, 1));
  auto spec = spec_of(1, 1);
  spec.after = {"demo/1"};
  const model::RunId second = world.submit(spec);
  EXPECT_THAT(world.run(second).reason, HasSubstr("demo/1 has succeeded"));
  world.all_running(first);
  world.apply_event_ok(world.ended(world.node(first, 0), model::RankState::exited, 0));
  world.all_terminated(first);
  ASSERT_EQ(world.run(first).state, model::RunState::succeeded);
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.run(second).state, model::RunState::starting);
}

TEST_F(StepControlTest, ARunWhosePredecessorEndedBadlyIsCancelledAndCanBeResumedWithIt) {
  const model::RunId first = world.submit(spec_of(1, 1));
  auto spec = spec_of(1, 1);
  spec.after = {"demo/1"};
  const model::RunId second = world.submit(spec);
  end(first);
  world.apply_event_ok(model::Tick{});
  EXPECT_EQ(world.run(second).state, model::RunState::cancelled);
  EXPECT_THAT(world.run(second).reason,
              AllOf(HasSubstr("demo/1"), HasSubstr("cancelled"), HasSubstr("`lockstep resume`")));
  world.apply_event_ok(model::ResumeRun{first});
  world.apply_event_ok(model::ResumeRun{second});
  EXPECT_THAT(world.run(second).reason, HasSubstr("demo/1 has succeeded"));
}

TEST_F(StepControlTest, ARunFollowsOnlyRunsThatAreThereAndMaySucceed) {
  const model::RunId first = world.submit(spec_of(1, 1));
  end(first);
  auto spec = spec_of(1, 1);
  spec.after = {"demo/2"};
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}),
              HasSubstr("after: there is no run demo/2; a run follows"))
      << "so no run can follow itself, nor two one another";
  spec.after = {"demo/1"};
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}),
              HasSubstr("after: demo/1 has ended as cancelled"));
  spec.after = {"demo"};
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}), HasSubstr("after: "));
  EXPECT_EQ(world.state.runs.size(), 1u);
}

TEST_F(StepControlTest, ARunStartsAtItsMomentAndNotBefore) {
  auto spec = spec_of(1, 1);
  spec.not_before = world.now + minutes(5);
  const model::RunId run = world.submit(spec);
  EXPECT_THAT(world.run(run).reason, HasSubstr("does not start before "));
  world.advance_time(minutes(4));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  world.advance_time(minutes(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST_F(StepControlTest, AClassIsAPromiseThatIsChecked) {
  auto spec = spec_of(1, 1);
  spec.run_class = model::RunClass::debug;
  spec.timeout = std::chrono::hours(2);
  EXPECT_THAT(
      refusal(model::SubmitRun{spec, {}}),
      AllOf(HasSubstr("timeout: "), HasSubstr("class debug"), HasSubstr("1h"), HasSubstr("2h")));
  spec.timeout = std::chrono::hours(1);
  spec.nodes = 2;
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}),
              HasSubstr("nodes: a run of class debug has one node"));
  spec.nodes = 1;
  EXPECT_EQ(refusal(model::SubmitRun{spec, {}}), "");
}

TEST_F(StepControlTest, HostsKeepWhatWasSetForThemAndWhoDidIt) {
  EXPECT_THAT(refusal(model::SetHost{"z", model::HostState::closed, "ann", ""}),
              HasSubstr("there is no host 'z' on the map"));
  world.apply_event_ok(model::SetHost{"b", model::HostState::closed, "ann", "its fan is loud"});
  const model::HostRow& host = world.state.hosts.at("b");
  EXPECT_EQ(host.state, model::HostState::closed);
  EXPECT_THAT(host.reason, AllOf(HasSubstr("ann"), HasSubstr("its fan is loud")));
  EXPECT_EQ(host.since, world.now);
  world.apply_event_ok(model::SetHost{"b", model::HostState::open, "bob", ""});
  EXPECT_EQ(world.state.hosts.at("b").audit.size(), 2u);
  EXPECT_EQ(world.state.hosts.at("b").audit[1].what, "released");
  EXPECT_EQ(world.state.hosts.at("b").reason, "");
}

TEST_F(StepControlTest, WhatExceedsALimitByItselfIsRefused) {
  world.apply_event_ok(model::SetLimit{{model::LimitScope::project, "demo"}, 2});
  EXPECT_THAT(refusal(model::SubmitRun{spec_of(2, 2), {}}),
              AllOf(HasSubstr("4 devices"), HasSubstr("project demo"), HasSubstr("2 at once"),
                    HasSubstr("`lockstep limits`")));
  EXPECT_EQ(refusal(model::SubmitRun{spec_of(1, 2), {}}), "");
  world.apply_event_ok(model::SetLimit{{model::LimitScope::project, "demo"}, std::nullopt});
  EXPECT_EQ(refusal(model::SubmitRun{spec_of(2, 2), {}}), "");
}

TEST_F(StepControlTest, ANodeGetsTheCoresAndMemoryThatItNeeds) {
  for (map::Host& host : world.state.map.pods[0].leaves[0].hosts) host.cores = 4;
  auto spec = spec_of(1, 1);
  spec.needs.cores = 3;
  const model::RunId first = world.submit(spec), second = world.submit(spec);
  EXPECT_EQ(world.state.nodes.at(world.node(first, 0)).host, "a");
  EXPECT_EQ(world.state.nodes.at(world.node(second, 0)).host, "b");
  EXPECT_THAT(world.run(world.submit(spec)).reason, HasSubstr("3 free cores"));
  spec.needs.cores = 5;
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}), HasSubstr("the map has no such hosts"));
  spec.needs.cores = -1;
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}),
              AllOf(HasSubstr("needs: cores: "), HasSubstr("0 to 100000"), HasSubstr("-1")));
  spec.needs = {.memory = Bytes(-1)};
  EXPECT_THAT(refusal(model::SubmitRun{spec, {}}), HasSubstr("needs: memory: must be from 0 to"));
}

TEST_F(StepControlTest, AProjectThatHasUsedLessStandsAheadOfOneThatUsesMuch) {
  fill();
  auto late = spec_of(2, 2);
  for (int i = 0; i < 3; ++i) world.submit(late);
  EXPECT_EQ(world.run({"demo", 4}).fair_share_used, 100) << "there was no other project";
  late.project = "new";
  world.apply_event_ok(model::SubmitRun{late, {}});
  const model::RunId other{"new", 1};
  EXPECT_EQ(world.run(other).fair_share_used, 25);
  EXPECT_THAT(world.run(other).reason, HasSubstr("waits for demo/1"));
  EXPECT_THAT(world.run({"demo", 2}).reason, HasSubstr("behind other runs"));
  world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run({"demo", 5}).fair_share_used, 160) << "of four fifths when half is fair";
}

TEST_F(StepControlTest, AProjectOfTwiceTheWeightHasARightToTwiceAsMuch) {
  const auto come = [&](const char* project) {
    auto spec = spec_of(1, 1);
    spec.project = project;
    world.apply_event_ok(model::SubmitRun{spec, {}});
  };
  come("demo");
  come("other");
  come("other");
  EXPECT_EQ(world.run({"other", 2}).fair_share_used, 100)
      << "half was asked for, when half is fair";
  world.apply_event_ok(model::SetWeight{"demo", 2});
  come("demo");
  EXPECT_EQ(world.run({"demo", 2}).fair_share_used, 50) << "a third, when two thirds are fair";
  come("other");
  EXPECT_EQ(world.run({"other", 3}).fair_share_used, 150) << "half, when a third is fair";
  EXPECT_EQ(world.run({"other", 2}).fair_share_used, 100) << "who has come keeps what he came with";
  EXPECT_THAT(refusal(model::SetWeight{"demo", 0}),
              HasSubstr("weight: must be from 1 to 1000, got 0"));
  EXPECT_THAT(refusal(model::SetWeight{"demo", 1001}), HasSubstr("got 1001"));
  EXPECT_THAT(refusal(model::SetWeight{"", 2}), HasSubstr("project"));
}

TEST_F(StepControlTest, WhatAProjectHadMoreThanAWeekAgoCountsNoMore) {
  const model::RunId first = fill();
  world.all_running(first);
  world.now += minutes(30);
  world.apply_event_ok(model::StopRun{first, ""});
  drain(first);
  auto other = spec_of(1, 1);
  other.project = "other";
  world.apply_event_ok(model::SubmitRun{other, {}});
  world.now += std::chrono::days(6);
  world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run({"demo", 2}).fair_share_used, 133) << "2 of 3 device-hours";
  world.now += std::chrono::days(2);
  world.submit(spec_of(1, 1));
  EXPECT_EQ(world.run({"demo", 3}).fair_share_used, 100) << "an hour each is asked for";
}

TEST_F(StepControlTest, AProspectIsWhatWouldHappenAndChangesNothing) {
  const auto free = dry_run(world.state, {spec_of(1, 2), {}}, world.now);
  ASSERT_TRUE(free);
  ASSERT_EQ(free->devices.size(), 1u);
  EXPECT_EQ(free->devices[0].host, "a");
  EXPECT_EQ(free->starts.latest, world.now);
  const model::RunId first = fill();
  const model::State before = world.state;
  world.submit(spec_of(2, 2));
  const auto waits = dry_run(world.state, {spec_of(1, 1), {}}, world.now + minutes(1));
  ASSERT_TRUE(waits);
  EXPECT_THAT(waits->devices, IsEmpty());
  EXPECT_EQ(waits->runs_ahead, 1u);
  EXPECT_EQ(waits->blocker, (model::RunId{"demo", 2}));
  EXPECT_TRUE(waits->starts.expected);
  EXPECT_EQ(world.state.runs.size(), 2u);
  EXPECT_EQ(world.run(first), before.runs.at(first));
  EXPECT_FALSE(dry_run(world.state, {spec_of(3, 2), {}}, world.now));
}

// Two hosts of two devices: the first run has all of them, the next takes one on each, so the last
// has to wait for both.
TEST_F(StepControlTest, APlanTellsTheStartsThatTheRunIsToldOnceItWaits) {
  auto base = spec_of(2, 2), next = spec_of(2, 1);
  base.timeout = minutes(20);
  next.timeout = minutes(40);
  world.submit(base);
  world.submit(next);
  const auto plan = dry_run(world.state, {spec_of(1, 2), {}}, world.now);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->starts.expected, world.now + minutes(60));
  EXPECT_EQ(plan->starts.latest, world.now + minutes(60) + 2 * overhead_max());
  world.submit(spec_of(1, 2));
  IncrementalScheduler queue;
  ASSERT_TRUE(step(queue, world.state, model::Tick{}, world.now));
  ASSERT_EQ(queue.start_times().size(), 2u);
  EXPECT_EQ(queue.start_times()[1], plan->starts);
}

TEST_F(StepControlTest, NoLatestStartIsToldOnceARunOutlivesItsLimit) {
  const model::RunId base = world.submit(spec_of(2, 2));
  world.all_running(base);
  world.submit(spec_of(2, 1));
  IncrementalScheduler queue;
  ASSERT_TRUE(step(queue, world.state, model::Tick{}, world.now));
  EXPECT_TRUE(queue.start_times()[0].latest);
  world.now += *world.run(base).spec.timeout + overhead_max() + minutes(1);
  ASSERT_TRUE(step(queue, world.state, model::Tick{.listening_since = world.now}, world.now));
  EXPECT_TRUE(queue.start_times()[0].expected);
  EXPECT_FALSE(queue.start_times()[0].latest);
}

TEST_F(StepControlTest, ARunThatComesToWaitLaterCountsForThoseThatItMayPass) {
  const model::RunId base = world.submit(spec_of(2, 2));
  auto later = spec_of(1, 1);
  later.not_before = world.now + minutes(30);
  later.timeout = minutes(5);  // it is ahead of the next
  world.submit(later);
  const model::RunId waits = world.submit(spec_of(2, 1));
  IncrementalScheduler queue;
  ASSERT_TRUE(step(queue, world.state, model::Tick{}, world.now));
  ASSERT_EQ(queue.waiting().size(), 1u);
  const Time end = world.now + std::chrono::hours(1);
  EXPECT_EQ(queue.start_times()[0].expected, end);
  EXPECT_EQ(queue.start_times()[0].latest, end + minutes(5) + 2 * overhead_max());
  EXPECT_EQ(queue.waiting()[0].run, waits);
  EXPECT_EQ(queue.waiting()[0].blocker, base);
}

// The reported wait reason matches the decision: the blocker's end is the start.
TEST_F(StepControlTest, WhoeverIsNamedAsTheBlockerIsTheOneWhoseEndLetsItStart) {
  auto short_one = spec_of(1, 2);
  short_one.timeout = minutes(10);
  const model::RunId a = world.submit(short_one);
  const model::RunId b = world.submit(spec_of(1, 2));
  const model::RunId waits = world.submit(spec_of(1, 1));
  IncrementalScheduler queue;
  ASSERT_TRUE(step(queue, world.state, model::Tick{}, world.now));
  ASSERT_EQ(queue.waiting().size(), 1u);
  EXPECT_EQ(queue.waiting()[0].run, waits);
  EXPECT_EQ(queue.waiting()[0].blocker, a);
  EXPECT_EQ(queue.waiting()[0].expected_start, world.now + minutes(10));
  EXPECT_EQ(queue.allocations().size(), 2u);
  end(a);
  EXPECT_EQ(world.run(waits).state, model::RunState::starting);
  EXPECT_EQ(world.run(b).state, model::RunState::starting);
}

TEST_F(StepControlTest, SeveralEventsOfOneMomentAreDecidedAsOne) {
  IncrementalScheduler queue;
  auto long_one = spec_of(2, 2);
  const std::vector<model::Event> both = {model::SubmitRun{long_one, {}},
                                          model::SubmitRun{spec_of(2, 2), {}}};
  const auto outcome = step(queue, world.state, both, world.now);
  ASSERT_TRUE(outcome);
  for (const model::Change& change : outcome->changes) model::apply(world.state, change);
  EXPECT_EQ(world.run({"demo", 1}).state, model::RunState::starting);
  EXPECT_THAT(world.run({"demo", 2}).reason, HasSubstr("waits for demo/1"));
  const std::vector<model::Event> half = {model::StopRun{{"demo", 2}, ""},
                                          model::StopRun{{"demo", 9}, ""}};
  EXPECT_FALSE(step(queue, world.state, half, world.now)) << "a refusal is that of all";
}

}  // namespace
}  // namespace lockstep::step
