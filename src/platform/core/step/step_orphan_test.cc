// Orphans: runs that another store has started, or that are newer than this copy of one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_world::node_gone;
using testing_world::spec_of;

const std::string kOther(16, 'e');

// A run of two devices on host a, made by another store.
class OrphanTest : public testing_world::StepTest {
 protected:
  OrphanTest() { world.state.store.generation = std::string(16, 'f'); }

  model::Orphan orphan(const model::RunId& run, std::int64_t epoch = 1) {
    model::AttemptRecord made;
    made.spec = spec_of(1, 2);
    made.spec.project = run.project;
    made.origin.user = "ann";
    made.run_generation = kOther;
    made.submitted = made.queued = made.created = world.now - minutes(10);
    made.devices = {{"a", {0, 1}}};
    return {.id = {kOther, {{run, epoch}, 0}},
            .attempt_record = made,
            .devices = made.devices[0],
            .expected_end = world.now + minutes(50)};
  }
  void see(const std::vector<model::Orphan>& orphans) {
    world.apply_event_ok(model::OrphansListed{orphans});
  }
  std::vector<model::NodeName> killed() const {
    std::vector<model::NodeName> names;
    for (const model::Effect& effect : world.effects)
      if (const auto* kill = std::get_if<model::KillOrphan>(&effect)) names.push_back(kill->node);
    return names;
  }
  model::Command told(const model::Orphan& orphan) {
    return model::command_for(world.state, orphan.id);
  }
  model::NodeReport word_of(const model::Orphan& orphan, model::RankState ranks) {
    model::NodeReport report;
    report.node = orphan.id.id;
    report.generation = orphan.id.generation;
    report.state = model::NodeState::running;
    report.address = "10.0.0.1";
    report.master_port = 4000;
    report.rendezvous_port = 5000;
    for (int local : {0, 1}) {
      model::Rank& rank = report.ranks.emplace_back();
      rank.rank = rank.local_rank = local;
      rank.state = ranks;
      if (ranks != model::RankState::running) rank.ended = world.now;
    }
    return report;
  }

  const model::RunId act_{"act", 1};
};

// Its host could not be asked when the operator stopped the others.
TEST_F(OrphanTest, IsStoppedIfItsAttemptIsBeingStopped) {
  see({orphan(act_)});
  world.apply_event_ok(model::StopOrphan{act_, "ann"});
  model::Orphan later = orphan(act_);
  later.id.id.index = 1;
  see({orphan(act_), later});
  EXPECT_EQ(told(later).kind, model::CommandKind::stop);
}

TEST_F(OrphanTest, IsNotAdoptedIfItsHostHasOtherDevicesNow) {
  model::Orphan moved = orphan(act_);
  moved.devices.devices = {0};
  see({moved});
  const auto refused = world.apply_event(model::AdoptOrphan{act_, "ann"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("the devices of host a have changed"));
}

TEST_F(OrphanTest, IsNotAdoptedIfAHostOfItHasNotJoined) {
  world.state.hosts_make_map = true;
  model::Orphan one = orphan(act_);
  one.attempt_record->devices.push_back({"elsewhere", {0}});
  see({one});
  const auto refused = world.apply_event(model::AdoptOrphan{act_, "ann"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("host elsewhere"));
}

TEST_F(OrphanTest, IsNotAdoptedWhileAHostOfItCannotBeAsked) {
  world.state.hosts_make_map = true;
  model::Orphan one = orphan(act_);
  one.attempt_record->devices.push_back({"b", {0}});
  see({one});
  world.apply_event_ok(model::HostsSeen{{{"b", "it has not called since 14:02"}}});
  const auto refused = world.apply_event(model::AdoptOrphan{act_, "ann"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("host b"));
  EXPECT_THAT(refused.error().message, HasSubstr("since 14:02"));
}

TEST_F(OrphanTest, HoldsItsDevicesAndWhoWaitsForThemSaysSo) {
  see({orphan(act_)});
  const model::RunId both = world.submit(spec_of(2, 2));
  EXPECT_EQ(world.run(both).state, model::RunState::queued);
  EXPECT_THAT(world.run(both).reason, HasSubstr("waits for orphan act/1"));
  auto small = spec_of(1, 2);
  small.timeout = minutes(10);  // before the orphan ends
  const model::RunId one = world.submit(small);
  EXPECT_EQ(world.state.nodes.at(world.node(one, 0)).host, "b") << "a is taken";
  see({});
  world.apply_event_ok(model::StopRun{one, ""});
  drain(one);
  EXPECT_EQ(world.run(both).state, model::RunState::starting);
}

TEST_F(OrphanTest, KeepsDevicesThatARunHeldAsWellWhenThatEnds) {
  const model::RunId run = world.submit(spec_of(1, 2));
  ASSERT_EQ(world.state.nodes.at(world.node(run, 0)).host, "a");
  see({orphan(act_)});
  world.apply_event_ok(model::StopRun{run, ""});
  drain(run);
  const model::RunId next = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.state.nodes.at(world.node(next, 0)).host, "b");
}

TEST_F(OrphanTest, GoesOnUntoldWhateverHappens) {
  const model::Orphan one = orphan(act_);
  see({one});
  EXPECT_EQ(told(one).kind, model::CommandKind::none);
  EXPECT_TRUE(told(one).orphaned);
  world.advance_time(minutes(10));
  world.apply_event_ok(word_of(one, model::RankState::running));
  world.apply_event_ok(word_of(one, model::RankState::killed));
  world.advance_time(minutes(10));
  EXPECT_EQ(told(one).kind, model::CommandKind::none);
  EXPECT_TRUE(world.effects.empty());
}

TEST_F(OrphanTest, ThatWasNotListedYetIsOneAllTheSame) {
  EXPECT_TRUE(told(orphan(act_)).orphaned);
  EXPECT_EQ(told(orphan(act_)).kind, model::CommandKind::none);
}

TEST_F(OrphanTest, ThatIsStoppedHasTheGracePeriodAndThenEndsByForce) {
  const model::Orphan one = orphan(act_);
  see({one});
  world.apply_event_ok(model::StopOrphan{act_, "root"});
  EXPECT_EQ(told(one).kind, model::CommandKind::stop);
  world.advance_time(seconds(15));
  EXPECT_TRUE(killed().empty());
  world.advance_time(seconds(6));
  world.advance_time(seconds(1));
  EXPECT_THAT(killed(), ElementsAre(one.id));
  world.advance_time(seconds(5));
  EXPECT_EQ(killed().size(), 2u) << "again until it is gone";
  see({});
  world.advance_time(seconds(5));
  EXPECT_EQ(killed().size(), 2u);
}

TEST_F(OrphanTest, ThatObeysOrHasNoAgentEndsAtOnce) {
  const model::Orphan obeys = orphan(act_);
  model::Orphan left = orphan({"act", 2});
  left.has_agent = false;
  see({obeys, left});
  world.apply_event_ok(model::StopOrphan{{"act", 2}, ""});
  world.advance_time(seconds(1));
  EXPECT_THAT(killed(), ElementsAre(left.id));
  world.apply_event_ok(model::StopOrphan{act_, ""});
  world.apply_event_ok(word_of(obeys, model::RankState::killed));
  world.advance_time(seconds(1));
  EXPECT_THAT(killed(), ElementsAre(left.id, obeys.id));
}

TEST_F(OrphanTest, ThatIsNotThereCannotBeStoppedOrAdopted) {
  for (const model::Event& event :
       {model::Event(model::StopOrphan{act_, ""}), model::Event(model::AdoptOrphan{act_, ""})}) {
    const auto refused = world.apply_event(event);
    EXPECT_EQ(refused.error().code, Code::not_found);
    EXPECT_THAT(refused.error().message, HasSubstr("`lockstep orphan ls` lists them"));
  }
}

TEST_F(OrphanTest, ThatIsAdoptedIsARunOfThisStoreAndGoesOn) {
  const model::Orphan one = orphan(act_, 2);
  see({one});
  world.apply_event_ok(model::AdoptOrphan{act_, "root"});
  EXPECT_TRUE(world.state.orphans.empty());
  const model::Run& run = world.run(act_);
  EXPECT_EQ(run.spec, one.attempt_record->spec);
  EXPECT_EQ(run.generation, kOther);
  EXPECT_EQ(run.epoch, 2);
  EXPECT_EQ(run.audit.back().by, "root");
  EXPECT_EQ(world.attempt(act_).generation, kOther);
  EXPECT_EQ(world.state.store.issued, 2) << "a run and an attempt more";
  EXPECT_TRUE(world.effects.empty()) << "nothing is launched";
  world.apply_event_ok(word_of(one, model::RankState::running));
  EXPECT_EQ(run.state, model::RunState::running);
  EXPECT_FALSE(told(one).orphaned);
  world.apply_event_ok(word_of(one, model::RankState::exited));
  world.all_terminated(act_);
  EXPECT_EQ(run.state, model::RunState::succeeded);
  EXPECT_EQ(text(world.submit(one.attempt_record->spec)), "act/2");
}

TEST_F(OrphanTest, ThatCannotBeAdoptedIsRefusedWithTheReason) {
  const auto refusal = [&](const std::vector<model::Orphan>& orphans) {
    see(orphans);
    auto refused = world.apply_event(model::AdoptOrphan{act_, ""});
    return refused ? std::string("it was adopted") : refused.error().message;
  };
  model::Orphan unknown = orphan(act_);
  unknown.attempt_record.reset();
  EXPECT_THAT(refusal({unknown}), HasSubstr("its launch file"));
  see({});
  EXPECT_THAT(refusal({orphan(act_, 1), orphan(act_, 2)}), HasSubstr("several attempts"));
  see({});
  const model::RunId here = world.submit(spec_of(1, 2));
  EXPECT_THAT(refusal({orphan(act_)}), HasSubstr(text(here) + " holds devices that it uses"));
  see({});
  auto namesake = spec_of(2, 2);
  namesake.project = "act";
  world.submit(namesake);
  ASSERT_TRUE(world.state.runs.contains(act_));
  world.apply_event_ok(model::StopRun{here, ""});
  drain(here);
  EXPECT_THAT(refusal({orphan(act_)}), HasSubstr("this store has another run of that name"));
}

// With `none`, its agent would count its running time as if all ranks ran.
TEST_F(OrphanTest, OfWhichOneNodeRunsWaitsForTheOthersOnceItIsAdopted) {
  model::Orphan first = orphan(act_);
  first.attempt_record->spec.nodes = 2;
  first.attempt_record->devices.push_back({"b", {0, 1}});
  model::Orphan second = first;
  second.id.id.index = 1;
  second.devices = first.attempt_record->devices[1];
  see({first, second});
  world.apply_event_ok(model::AdoptOrphan{act_, ""});
  model::NodeReport runs = word_of(second, model::RankState::running);
  for (model::Rank& rank : runs.ranks) rank.rank += 2;
  world.apply_event_ok(runs);
  EXPECT_EQ(told(second).kind, model::CommandKind::start);
  EXPECT_EQ(told(first).kind, model::CommandKind::none) << "it has not called yet";
  world.apply_event_ok(word_of(first, model::RankState::running));
  EXPECT_EQ(told(second).kind, model::CommandKind::none);
  EXPECT_EQ(world.run(act_).state, model::RunState::running);
}

TEST_F(OrphanTest, WhoseDevicesAreReservedForARunThatMovesCannotBeAdopted) {
  const model::RunId moves = world.submit(spec_of(1, 2));
  ASSERT_EQ(world.state.nodes.at(world.node(moves, 0)).host, "a");
  world.state.attempts.at({moves, 1}).move_destination = {{"b", {0, 1}}};
  model::Orphan there = orphan(act_);
  there.attempt_record->devices = {{"b", {0}}};
  there.devices = there.attempt_record->devices[0];
  see({there});
  const auto refused = world.apply_event(model::AdoptOrphan{act_, ""});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(text(moves) + " holds devices that it uses"));
}

// A node of it has ended, and its devices were allocated to a run that is an orphan, too.
TEST_F(OrphanTest, WhoseDevicesAnotherHoldsCannotBeAdopted) {
  model::Orphan half = orphan(act_);
  half.attempt_record->devices.push_back({"b", {0, 1}});
  model::Orphan other = orphan({"demo", 7});
  other.attempt_record->devices = {{"b", {1}}};
  other.devices = other.attempt_record->devices[0];
  see({half, other});
  const auto refused = world.apply_event(model::AdoptOrphan{act_, ""});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("orphan demo/7 holds devices that it uses"));
}

// Also after the daemon that got the request has ended: only the request is stored.
TEST_F(OrphanTest, ThatIsToEndIsSoForTheNextDaemon) {
  const model::Orphan one = orphan(act_);
  see({one});
  world.apply_event_ok(model::StopOrphan{act_, "root"});
  model::drop_unstored_orphans(world.state);
  EXPECT_EQ(told(one).kind, model::CommandKind::stop);
  see({one});
  ASSERT_TRUE(world.state.orphans.at(one.id).attempt_record);
  EXPECT_EQ(world.state.orphans.at(one.id).expected_end, one.expected_end);
  EXPECT_EQ(told(one).kind, model::CommandKind::stop);
  world.advance_time(seconds(21));
  EXPECT_THAT(killed(), ElementsAre(one.id));
}

TEST_F(OrphanTest, IsForgottenOnceItIsGoneThoughTheDaemonThatWasAskedHasDied) {
  see({orphan(act_), orphan({"act", 2})});
  world.apply_event_ok(model::StopOrphan{act_, "root"});
  model::drop_unstored_orphans(world.state);
  ASSERT_EQ(world.state.orphans.size(), 1u);
  see({});
  EXPECT_TRUE(world.state.orphans.empty());
}

// The copy knows the run, but not its newest attempt.
TEST_F(OrphanTest, KeepsTheRunOfItsNameFromStartingUntilItIsAdopted) {
  world.state.store.generation = kOther;
  auto spec = spec_of(1, 2);
  spec.project = "act";
  ASSERT_EQ(world.submit(spec), act_);
  world.state.store.generation = std::string(16, 'f');
  const model::Orphan newer = orphan(act_, 2);
  see({newer});
  world.apply_event_ok(node_gone(world.node(act_, 0)));
  world.advance_time(seconds(1));
  EXPECT_EQ(world.run(act_).state, model::RunState::queued);
  EXPECT_THAT(world.run(act_).reason, HasSubstr("`lockstep orphan adopt act/1` takes it over"));
  EXPECT_EQ(world.count<model::SubmitGang>(), 1);
  world.apply_event_ok(model::AdoptOrphan{act_, ""});
  EXPECT_EQ(world.run(act_).state, model::RunState::starting);
  EXPECT_EQ(world.run(act_).epoch, 2);
  EXPECT_EQ(world.count<model::SubmitGang>(), 1) << "it goes on";
}

TEST_F(OrphanTest, LetsTheRunOfItsNameStartOnceItIsGone) {
  world.state.store.generation = kOther;
  auto spec = spec_of(1, 2);
  spec.project = "act";
  world.submit(spec);
  const model::Orphan newer = orphan(act_, 2);
  see({newer});
  world.apply_event_ok(node_gone(world.node(act_, 0)));
  world.advance_time(seconds(1));
  see({});
  world.advance_time(seconds(1));
  EXPECT_EQ(world.run(act_).state, model::RunState::starting);
  EXPECT_EQ(world.run(act_).epoch, 2);
}

TEST_F(OrphanTest, IsToldToOperatorsWithWhatTheyCanDo) {
  see({orphan(act_)});
  EXPECT_THAT(
      describe_orphans(world.state),
      ElementsAre("a run of another store is active here: act/1 (2 devices on a); `lockstep "
                  "orphan stop act/1` ends it, `lockstep orphan adopt act/1` takes it "
                  "over"));
}

TEST_F(OrphanTest, NoRunStartsBeforeTheEngineHasSaidWhatIsThere) {
  world.state.engine_has_listed = false;
  const model::RunId run = world.submit(spec_of(1, 2));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  world.state.engine_has_listed = true;
  see({orphan(act_)});
  world.apply_event_ok(model::DaemonStarted{});
  EXPECT_EQ(world.state.nodes.at(world.node(run, 0)).host, "b");
}

}  // namespace
}  // namespace lockstep::step
