// Personal buckets in the controller's decisions: holds, refusals, waits and what goes back.
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/budget/personal.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using namespace testing_world;
using std::chrono::hours;
using std::chrono::minutes;
using ::testing::HasSubstr;

class PersonalWorld : public World {
 public:
  PersonalWorld() : World(map_of(2, 2)) {
    state.settings.personal_refill = 60;
    state.settings.personal_cap = 120;
  }

  static model::SubmitRun submission(Duration timeout, int devices = 1, int nodes = 1) {
    auto spec = spec_of(nodes, devices);
    spec.project = "ann";
    spec.timeout = timeout;
    return {.spec = spec, .origin = {}, .project_kind = model::ProjectKind::personal};
  }
  model::RunId submit_for(Duration timeout, int devices = 1) {
    apply_event_ok(submission(timeout, devices));
    return std::prev(state.runs.upper_bound({"ann", 1'000'000}))->first;
  }
  std::string refusal(const model::SubmitRun& event) {
    const auto done = apply_event(event);
    return done ? "accepted" : done.error().message;
  }
  budget::DeviceTime level() const {
    return budget::level_at(state.buckets.at("ann"), refill_of(state.settings), now);
  }
  budget::DeviceTime held() const { return state.buckets.at("ann").held; }
  void start(const model::RunId& run) {
    apply_event_ok(report(node(run, 0), model::NodeState::ready));
    apply_event_ok(running(node(run, 0)));
  }
  void pass(const model::RunId& run, Duration duration) {
    for (Duration gone(0); gone < duration; gone += minutes(1)) {
      if (state.attempts.at({run, this->run(run).epoch}).state == model::AttemptState::running)
        apply_event_ok(running(node(run, 0)));
      advance_time(minutes(1));
    }
  }
  void finish(const model::RunId& run) {
    const model::NodeId last = node(run, 0);
    apply_event_ok(ended(last, model::RankState::exited, 0));
    apply_event_ok(node_gone(last));
  }
};

TEST(StepPersonal, ARunHoldsOfTheBucketAndGivesBackWhatItDidNotUse) {
  PersonalWorld world;
  const auto run = world.submit_for(minutes(40), 2);
  EXPECT_EQ(world.held(), minutes(80));
  EXPECT_EQ(world.level(), minutes(40));
  EXPECT_TRUE(world.attempt(run).charge->personal);
  world.start(run);
  world.pass(run, minutes(10));
  world.finish(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
  EXPECT_EQ(world.held(), minutes(0));
  EXPECT_EQ(world.state.buckets.at("ann").spent, minutes(20));
  EXPECT_EQ(world.level(), minutes(40 + 10 + 60)) << "with what it got in the ten minutes";
}

TEST(StepPersonal, WithoutTheSettingNothingChanges) {
  PersonalWorld world;
  world.state.settings.personal_refill = 0;
  world.apply_event_ok(PersonalWorld::submission(hours(200), 2, 2));
  EXPECT_EQ(world.state.runs.rbegin()->second.state, model::RunState::starting);
  EXPECT_TRUE(world.state.buckets.empty());
}

TEST(StepPersonal, ASharedProjectHasNoBucket) {
  PersonalWorld world;
  auto event = PersonalWorld::submission(hours(200), 2, 2);
  event.project_kind = model::ProjectKind::shared;
  world.apply_event_ok(event);
  EXPECT_TRUE(world.state.buckets.empty());
}

TEST(StepPersonal, ARunThatIsTooLargeOrTooLongIsRefusedWithTheWayOut) {
  PersonalWorld world;
  EXPECT_EQ(world.refusal(PersonalWorld::submission(minutes(10), 1, 2)),
            "nodes: the personal project ann runs on one node at a time, not on 2; ask for less, "
            "or name a shared project with `--project`");
  EXPECT_THAT(world.refusal(PersonalWorld::submission(minutes(61))),
              HasSubstr("has runs of at most 1h, not 1h 1m; ask for less"));
  world.state.settings.personal_cap = 60;
  EXPECT_THAT(world.refusal(PersonalWorld::submission(minutes(40), 2)),
              HasSubstr("has at most 60 device-minutes, and the run needs 80 device-minutes"));
  EXPECT_TRUE(world.state.runs.empty());
}

TEST(StepPersonal, ARunWaitsUntilTheBucketHasEnoughAndItsReasonSaysWhen) {
  PersonalWorld world;
  world.submit_for(minutes(60), 2);
  const auto run = world.submit_for(minutes(30));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  EXPECT_EQ(world.run(run).reason,
            "needs 30 device-minutes of the personal bucket of ann, which has enough from " +
                text(world.now + minutes(30)) + " on; see `lockstep budget show`");
  world.advance_time(minutes(29));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  world.advance_time(minutes(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST(StepPersonal, AnotherRunThatTakesFromTheBucketMovesTheMomentInTheReason) {
  PersonalWorld world;
  const auto first = world.submit_for(minutes(60), 2);
  world.start(first);
  const auto large = world.submit_for(minutes(30), 2);
  const std::string before = world.run(large).reason;
  world.pass(first, minutes(20));
  world.submit_for(minutes(10));
  EXPECT_NE(world.run(large).reason, before);
  EXPECT_THAT(world.run(large).reason, HasSubstr("from " + text(world.now + minutes(50)) + " on"));
}

TEST(StepPersonal, AWaitingRunBlocksNoOther) {
  PersonalWorld world;
  world.submit_for(minutes(60), 2);
  world.submit_for(minutes(30));
  auto spec = spec_of(1, 2);
  world.apply_event_ok(model::SubmitRun{spec, {}});
  EXPECT_EQ(world.state.runs.at({"demo", 1}).state, model::RunState::starting);
}

TEST(StepPersonal, ABudgetReplacesTheBucketAndItsEndBringsItBack) {
  PersonalWorld world;
  world.apply_event_ok(model::GrantBudget{
      .project = "ann", .amount = hours(100), .ends = world.now + hours(1000), .by = "eve"});
  world.apply_event_ok(PersonalWorld::submission(hours(20), 1, 2));
  EXPECT_EQ(world.state.budgets.at("ann").held, hours(40));
  EXPECT_TRUE(world.state.buckets.empty());
  world.apply_event_ok(model::LiftBudget{.project = "ann", .by = "eve"});
  EXPECT_THAT(world.refusal(PersonalWorld::submission(hours(20))), HasSubstr("at most 1h"));
  world.advance_time(minutes(1));
  EXPECT_EQ(world.state.runs.at({"ann", 1}).project_kind, model::ProjectKind::shared);
}

TEST(StepPersonal, AGrantInTheMeantimeLeavesTheHoldWithTheBucket) {
  PersonalWorld world;
  const auto run = world.submit_for(minutes(60));
  world.start(run);
  world.apply_event_ok(model::GrantBudget{
      .project = "ann", .amount = hours(100), .ends = world.now + hours(1000), .by = "eve"});
  world.pass(run, minutes(10));
  world.finish(run);
  EXPECT_EQ(world.held(), minutes(0));
  EXPECT_EQ(world.state.budgets.at("ann").spent, minutes(0));
  EXPECT_EQ(world.state.buckets.at("ann").spent, minutes(10));
}

TEST(StepPersonal, TwoRunsThatTogetherNeedTooMuchStartOneAfterTheOther) {
  PersonalWorld world;
  world.state.settings.personal_cap = 60;
  auto holder = spec_of(2, 2);
  world.apply_event_ok(model::SubmitRun{holder, {}});
  const model::RunId holds{"demo", 1};
  const auto first = world.submit_for(minutes(40));
  const auto second = world.submit_for(minutes(40));
  world.apply_event_ok(model::StopRun{holds, ""});
  for (int index : {0, 1}) world.apply_event_ok(node_gone(world.node(holds, index)));
  EXPECT_EQ(world.run(first).state, model::RunState::starting);
  EXPECT_EQ(world.run(second).state, model::RunState::queued);
  EXPECT_THAT(world.run(second).reason, HasSubstr("of the personal bucket of ann"));
}

TEST(StepPersonal, TheClockMovesTheMomentOfTheLevel) {
  PersonalWorld world;
  world.state.clock = {.boot = "b", .zero = Time(hours(1))};
  world.submit_for(minutes(60), 2);
  const auto level = world.level();
  world.apply_event_ok(model::ClockChanged{{.boot = "b", .zero = Time(hours(11))}});
  world.now += hours(10);
  EXPECT_EQ(world.level(), level);
}

TEST(StepPersonal, ALowerCapThanARunNeedsIsSaidInItsReason) {
  PersonalWorld world;
  world.submit_for(minutes(60), 2);
  const auto run = world.submit_for(minutes(30), 2);
  world.state.settings.personal_cap = 50;
  EXPECT_THAT(
      bucket_wait_reason(Draft(world.state, world.now), "ann", *world.run(run).awaits_budget),
      HasSubstr("which never has more than 50 device-minutes"));
}

}  // namespace
}  // namespace lockstep::step
