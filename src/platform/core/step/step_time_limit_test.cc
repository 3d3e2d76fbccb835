// Time limits in the controller's decisions: defaults by class, extensions, and the end of retries
// that cannot help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/budget/cost.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using namespace testing_world;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

class LimitWorld : public World {
 public:
  LimitWorld() : World(map_of(2, 2)) {}

  model::RunId start_for(Duration timeout) {
    auto spec = spec_of(1, 2);
    spec.timeout = timeout;
    spec.retries = 5;
    return start(spec);
  }
  model::RunId start(const model::RunSpec& spec) {
    const auto run = submit(spec);
    all_running(run);
    return run;
  }
  // Its agents call, so that no node counts as lost.
  void pass(const model::RunId& run, Duration duration) {
    for (Duration gone(0); gone < duration; gone += seconds(20)) {
      apply_event_ok(running(node(run, 0)));
      advance_time(seconds(20));
    }
  }
  std::string refusal(const model::Event& event) {
    const auto done = apply_event(event);
    return done ? "" : done.error().message;
  }
  // All ranks of the attempt exit with the code, and its processes are gone.
  void exit_with(const model::RunId& run, int code) {
    const model::NodeId last = node(run, 0);
    apply_event_ok(ended(last, model::RankState::exited, code));
    apply_event_ok(node_gone(last));
    advance_time(seconds(10));
  }
};

TEST(StepTimeLimit, ARunWithoutOneGetsThatOfItsClass) {
  LimitWorld world;
  world.state.settings.timeout_normal = hours(12);
  world.state.settings.timeout_debug = minutes(10);
  EXPECT_EQ(world.run(world.submit(spec_of(1, 1))).spec.timeout, Duration(hours(12)));
  auto spec = spec_of(1, 1);
  spec.run_class = model::RunClass::debug;
  EXPECT_EQ(world.run(world.submit(spec)).spec.timeout, Duration(minutes(10)));
}

TEST(StepTimeLimit, ARepeatedSubmissionIsTheSameRunThoughTheSettingHasChanged) {
  LimitWorld world;
  const model::SubmitRun event{.spec = spec_of(1, 1), .origin = {}, .request_id = "once"};
  world.apply_event_ok(event);
  world.state.settings.timeout_normal = hours(12);
  EXPECT_EQ(world.refusal(event), "");
  EXPECT_EQ(world.state.runs.size(), 1u);
}

TEST(StepTimeLimit, AnExtendedRunGoesOnAfterItsFirstLimit) {
  LimitWorld world;
  const auto run = world.start_for(minutes(10));
  world.apply_event_ok(model::ExtendRun{run, minutes(5), "ann"});
  world.pass(run, minutes(11));
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  EXPECT_EQ(world.run(run).audit.back().what, "time limit 15m, it was 10m");
  world.pass(run, minutes(5));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::timeout);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("time-out of 15m"));
}

TEST(StepTimeLimit, TheAgentsHearOfAnExtension) {
  LimitWorld world;
  const auto run = world.start_for(minutes(10));
  const model::NodeName name = model::name_of(world.state, world.node(run, 0));
  EXPECT_EQ(model::command_for(world.state, name).time_left, Duration(minutes(10)));
  const auto before = model::gang_status(world.state, run);
  world.apply_event_ok(model::ExtendRun{run, minutes(5), "ann"});
  EXPECT_EQ(model::command_for(world.state, name).time_left, Duration(minutes(15)));
  EXPECT_NE(model::gang_status(world.state, run), before) << "waiting calls are answered";
}

TEST(StepTimeLimit, AnExtensionThatCannotActIsRefusedWithTheReason) {
  LimitWorld world;
  const auto run = world.start_for(minutes(10));
  for (const Duration bad : {Duration(0), Duration(-minutes(1)), Duration(hours(24 * 400))})
    EXPECT_THAT(world.refusal(model::ExtendRun{run, bad, "ann"}), HasSubstr("more than 0s"));
  EXPECT_THAT(world.refusal(model::ExtendRun{{"demo", 9}, minutes(1), ""}), HasSubstr("demo/9"));
  auto spec = spec_of(1, 1);
  spec.run_class = model::RunClass::debug;
  EXPECT_THAT(world.refusal(model::ExtendRun{world.submit(spec), minutes(1), ""}),
              HasSubstr("has the longest time limit of its class debug and project, 1h"));
  world.exit_with(run, 0);
  EXPECT_THAT(world.refusal(model::ExtendRun{run, minutes(1), ""}), HasSubstr("has ended"));
}

TEST(StepTimeLimit, ARunThatSlurmBoundsIsExtendedOnlyWhileItWaits) {
  LimitWorld world;
  world.state.engine = model::kSlurmEngine;
  const auto run = world.start_for(minutes(10));
  EXPECT_THAT(world.refusal(model::ExtendRun{run, minutes(1), ""}),
              HasSubstr("runs with a time limit of slurm that cannot be raised"));
}

TEST(StepTimeLimit, AnAgentThatHadNotHeardOfTheExtensionCostsALossAndNotTheRun) {
  LimitWorld world;
  const auto run = world.start_for(minutes(10));
  world.pass(run, minutes(9) + seconds(40));
  world.apply_event_ok(model::ExtendRun{run, hours(1), "ann"});
  auto stopped = world.ended(world.node(run, 0), model::RankState::killed, 15, true);
  stopped.state = model::NodeState::stopping;
  stopped.stop_reason = model::StopReason::timeout;
  world.apply_event_ok(stopped);
  EXPECT_EQ(world.attempt(run).cause, model::Cause::node_lost);
  EXPECT_THAT(world.attempt(run).reason, HasSubstr("had not heard that it was extended"));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_FALSE(model::is_final(world.run(run).state));
}

TEST(StepTimeLimit, AResumedRunHasTheTimeLimitOfItsSubmissionAgain) {
  LimitWorld world;
  const auto run = world.start_for(minutes(10));
  world.apply_event_ok(model::ExtendRun{run, minutes(5), "ann"});
  world.apply_event_ok(model::StopRun{run, ""});
  world.all_terminated(run);
  world.apply_event_ok(model::ResumeRun{run});
  EXPECT_EQ(model::time_limit(world.run(run)), minutes(10));
}

// --- The same early exit on other hosts ---

TEST(StepTimeLimit, TheSameEarlyExitOnOtherHostsEndsTheRetries) {
  LimitWorld world;
  const auto run = world.start_for(hours(1));
  world.pass(run, seconds(20));
  world.apply_event_ok(model::SetHost{"a", model::HostState::closed, "ann", ""});
  world.exit_with(run, 3);
  ASSERT_EQ(world.attempt(run).id.epoch, 2);
  world.all_running(run);
  world.exit_with(run, 3);
  EXPECT_EQ(world.run(run).state, model::RunState::failed);
  EXPECT_THAT(world.run(run).reason, HasSubstr("so did the attempt before, on other hosts"));
  EXPECT_EQ(world.run(run).user_exits, 1) << "four of five retries are left";
}

TEST(StepTimeLimit, AnotherCodeALaterExitOrTheSameHostKeepsTheRetries) {
  for (const auto& [code, runs_for, closes] : {std::tuple(4, Duration(0), true),
                                               {3, Duration(minutes(2)), true},
                                               {3, Duration(0), false}}) {
    LimitWorld world;
    const auto run = world.start_for(hours(1));
    if (closes)
      world.apply_event_ok(model::SetHost{"a", model::HostState::closed, "ann", ""});
    else
      world.apply_event_ok(model::SetHost{"b", model::HostState::closed, "ann", ""});
    world.exit_with(run, 3);
    world.all_running(run);
    world.pass(run, runs_for);
    world.exit_with(run, code);
    EXPECT_FALSE(model::is_final(world.run(run).state)) << world.run(run).reason;
  }
}

// --- Cost ---

TEST(StepTimeLimit, TheCostOfARunIsWhatItUsedAndAtItsLimitAllOfItsTime) {
  LimitWorld world;
  const auto run = world.start_for(hours(1));
  world.pass(run, minutes(10));
  const RunCost cost = cost_of(world.state, world.run(run), world.now);
  EXPECT_EQ(cost.so_far, minutes(20));
  EXPECT_EQ(cost.at_limit, hours(2));
  world.exit_with(run, 0);
  EXPECT_EQ(world.run(run).charged, minutes(20));
  EXPECT_EQ(cost_of(world.state, world.run(run), world.now).at_limit, minutes(20));
}

TEST(StepTimeLimit, TheCostOfAPlanHasTheWeightOfItsHostsAndTheDiscount) {
  LimitWorld world;
  world.state.map.pods[0].leaves[0].hosts[0].labels = {{"device-kind", "h100"}};
  world.apply_event_ok(model::SetRate{.kind = "h100", .weight_percent = 400});
  auto spec = spec_of(1, 2);
  EXPECT_EQ(cost_at_limit(world.state, spec, {{"a", {0, 1}}}), hours(8));
  EXPECT_EQ(cost_at_limit(world.state, spec, {}), hours(2)) << "the cheapest devices";
  spec.run_class = model::RunClass::preemptible;
  EXPECT_EQ(cost_at_limit(world.state, spec, {{"a", {0, 1}}}), hours(4));
}

TEST(StepTimeLimit, AHoldThatIsUsedUpIsRenewedBeforeTheWindowEnds) {
  LimitWorld world;
  world.apply_event_ok(model::GrantBudget{
      .project = "demo", .amount = hours(100), .ends = world.now + hours(1000), .by = "ann"});
  const auto run = world.start_for(minutes(30));
  EXPECT_EQ(world.state.budgets.at("demo").held, hours(1));
  world.apply_event_ok(model::ExtendRun{run, minutes(30), "ann"});
  world.pass(run, minutes(31));
  EXPECT_GT(world.state.budgets.at("demo").held, minutes(50));
  EXPECT_GE(world.state.budgets.at("demo").spent, hours(1));
}

}  // namespace
}  // namespace lockstep::step
