// Budgets in the controller's decisions: holds, waits, renewals and what an attempt is charged.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "platform/core/step/decider.h"
#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using namespace testing_world;
using std::chrono::hours;
using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BudgetWorld : public World {
 public:
  BudgetWorld() : World(map_of(2, 2)) {}

  void grant(Duration amount, Duration lasts = hours(1000)) {
    apply_event_ok(
        model::GrantBudget{.project = "demo", .amount = amount, .ends = now + lasts, .by = "ann"});
  }
  const budget::Budget& budget() const { return state.budgets.at("demo"); }

  model::RunId submit_for(Duration timeout, int devices = 2) {
    auto spec = spec_of(1, devices);
    spec.timeout = timeout;
    return submit(spec);
  }
  void start(const model::RunId& run) {
    apply_event_ok(report(node(run, 0), model::NodeState::ready));
    apply_event_ok(running(node(run, 0)));
  }
  // Its agents call, so that no node counts as lost.
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

TEST(StepBudget, ARunHoldsItsTimeOutOnAllDevicesAndSettlesWhatItUsed) {
  BudgetWorld world;
  world.grant(hours(100));
  const auto run = world.submit_for(hours(2));
  EXPECT_EQ(world.budget().held, hours(4));
  EXPECT_EQ(world.budget().available, hours(96));
  world.start(run);
  world.pass(run, minutes(30));
  world.finish(run);
  EXPECT_EQ(world.run(run).state, model::RunState::succeeded);
  EXPECT_EQ(world.budget().held, hours(0));
  EXPECT_EQ(world.budget().spent, hours(1));
  EXPECT_EQ(world.budget().available, hours(99));
}

TEST(StepBudget, AProjectWithoutAGrantIsNotLimited) {
  BudgetWorld world;
  const auto run = world.submit_for(hours(2000));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
  EXPECT_TRUE(world.state.budgets.empty());
}

TEST(StepBudget, ARunWithoutEnoughBudgetWaitsAndBlocksNoOther) {
  BudgetWorld world;
  world.grant(hours(5));
  const auto large = world.submit_for(hours(3));
  const auto small = world.submit_for(hours(1));
  EXPECT_EQ(world.run(large).state, model::RunState::queued);
  EXPECT_THAT(world.run(large).reason,
              HasSubstr("needs 360 device-minutes of the budget of demo, which has 300"));
  EXPECT_EQ(world.run(small).state, model::RunState::starting);
}

TEST(StepBudget, AGrantStartsTheRunThatWaitsForIt) {
  BudgetWorld world;
  world.grant(hours(1));
  const auto run = world.submit_for(hours(3));
  world.grant(hours(5));
  world.advance_time(std::chrono::seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST(StepBudget, TheDevicesOfARunWithoutBudgetGoToAnother) {
  BudgetWorld world;
  world.state.map = map_of(1, 2);
  world.grant(hours(1));
  world.submit_for(hours(3));
  auto spec = spec_of(1, 2);
  spec.project = "other";
  world.apply_event_ok(model::SubmitRun{spec, {}});
  EXPECT_EQ(world.state.runs.at({"other", 1}).state, model::RunState::starting);
}

TEST(StepBudget, ALongRunHoldsOneWindowAndRenewsIt) {
  BudgetWorld world;
  world.state.settings.budget_window = hours(2);
  world.grant(hours(100));
  const auto run = world.submit_for(hours(10));
  EXPECT_EQ(world.budget().held, hours(4));
  world.start(run);
  world.pass(run, hours(2) + minutes(1));
  EXPECT_EQ(world.budget().spent, hours(4));
  EXPECT_EQ(world.budget().held, hours(4));
}

TEST(StepBudget, ARunWhoseRenewalFailsEndsAndGoesOnAfterAGrant) {
  BudgetWorld world;
  world.state.settings.budget_window = hours(2);
  world.grant(hours(4));
  const auto run = world.submit_for(hours(10));
  world.start(run);
  world.pass(run, hours(2) + minutes(1));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::budget);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 15, true));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.run(run).state, model::RunState::queued);
  EXPECT_THAT(world.run(run).reason, HasSubstr("of the budget of demo"));
  EXPECT_EQ(world.run(run).losses, 0);
  EXPECT_EQ(world.budget().held, hours(0));
  world.grant(hours(50));
  world.advance_time(std::chrono::seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

TEST(StepBudget, AWithdrawalActsAtTheNextRenewalAndNeverBefore) {
  BudgetWorld world;
  world.state.settings.budget_window = hours(2);
  world.grant(hours(100));
  const auto run = world.submit_for(hours(10));
  world.start(run);
  world.apply_event_ok(model::WithdrawBudget{.project = "demo", .amount = hours(96)});
  world.pass(run, hours(2) - minutes(5));
  EXPECT_EQ(world.run(run).state, model::RunState::running);
  world.pass(run, minutes(10));
  EXPECT_EQ(world.attempt(run).cause, model::Cause::budget);
}

TEST(StepBudget, TimeThatALostNodeCostsIsNotCharged) {
  BudgetWorld world;
  world.grant(hours(100));
  const auto run = world.submit_for(hours(2));
  world.start(run);
  world.pass(run, minutes(20));
  auto saved = world.running(world.node(run, 0));
  saved.last_checkpoint = world.now;
  world.apply_event_ok(saved);
  world.pass(run, minutes(10));
  world.apply_event_ok(node_gone(world.node(run, 0)));
  EXPECT_EQ(world.budget().spent, minutes(40)) << "two devices up to the checkpoint";
}

TEST(StepBudget, APreemptibleRunPaysHalf) {
  BudgetWorld world;
  world.grant(hours(100));
  auto spec = spec_of(1, 2);
  spec.timeout = hours(2);
  spec.run_class = model::RunClass::preemptible;
  const auto run = world.submit(spec);
  EXPECT_EQ(world.budget().held, hours(2));
  world.start(run);
  world.pass(run, minutes(30));
  world.finish(run);
  EXPECT_EQ(world.budget().spent, minutes(30));
}

TEST(StepBudget, ADeviceOfAKindWithAWeightCostsThatMuchMore) {
  BudgetWorld world;
  for (map::Host& host : world.state.map.pods[0].leaves[0].hosts)
    host.labels = {{"device-kind", "h100"}};
  world.apply_event_ok(model::SetRate{.kind = "h100", .weight_percent = 400});
  world.grant(hours(100));
  world.submit_for(hours(2), 1);
  EXPECT_EQ(world.budget().held, hours(8));
}

TEST(StepBudget, EachAttemptLeavesARecordOfItsUse) {
  World world(map_of(1, 2));
  auto spec = spec_of(1, 2);
  const auto run = world.submit(spec);
  world.apply_event_ok(world.report(world.node(run, 0), model::NodeState::ready));
  world.apply_event_ok(world.running(world.node(run, 0)));
  world.now += minutes(6);
  world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::exited, 0));
  const auto outcome = step(world.state, node_gone(world.node(run, 0)), world.now).value();
  const auto found = std::ranges::find_if(outcome.changes, [](const model::Change& change) {
    return std::holds_alternative<budget::UsagePart>(change);
  });
  ASSERT_NE(found, outcome.changes.end());
  const auto& part = std::get<budget::UsagePart>(*found);
  EXPECT_EQ(part.kind, "gpu");
  EXPECT_EQ(part.devices, 2);
  EXPECT_EQ(part.used, minutes(12));
  EXPECT_EQ(part.charged, minutes(12));
}

TEST(StepBudget, WhatIsLeftOfAGrantExpiresAtItsEnd) {
  BudgetWorld world;
  world.grant(hours(10), hours(1));
  world.advance_time(hours(1));
  EXPECT_EQ(world.budget().available, hours(0));
}

TEST(StepBudget, ALiftedBudgetLimitsNoRun) {
  BudgetWorld world;
  world.grant(hours(1));
  const auto run = world.submit_for(hours(3));
  world.apply_event_ok(model::LiftBudget{.project = "demo", .by = "ann"});
  world.advance_time(std::chrono::seconds(1));
  EXPECT_EQ(world.run(run).state, model::RunState::starting);
}

// A decider, whose every decision is compared with that of step() from nothing.
class ComparedWorld {
 public:
  ComparedWorld() : decider_(full_state()) {}

  void decide(const model::Event& event) {
    now_ += std::chrono::seconds(1);
    const auto kept = decider_.propose(event, now_);
    const auto fresh = step(decider_.state(), event, now_);
    ASSERT_EQ(kept.has_value(), fresh.has_value());
    if (!kept) return;
    ASSERT_EQ(kept->changes, fresh->changes);
    ASSERT_EQ(kept->effects, fresh->effects);
    decider_.accept(kept->changes);
  }
  void grant(Duration amount) {
    decide(model::GrantBudget{
        .project = "demo", .amount = amount, .ends = now_ + hours(1000), .by = "ann"});
  }
  void withdraw(Duration amount) {
    decide(model::WithdrawBudget{.project = "demo", .amount = amount});
  }
  void submit(Duration timeout, const std::string& project = "demo") {
    auto spec = spec_of(1, 1);
    spec.project = project;
    spec.timeout = timeout;
    decide(model::SubmitRun{spec, {}});
  }
  void set_weight(int percent) { decide(model::SetRate{.kind = "gpu", .weight_percent = percent}); }
  // The waiting runs of the project that its budget keeps from starting.
  std::vector<std::int64_t> awaiting() const {
    std::vector<std::int64_t> numbers;
    for (const auto& [id, run] : decider_.state().runs)
      if (run.awaits_budget) numbers.push_back(id.number);
    return numbers;
  }
  Duration available() const { return decider_.state().budgets.at("demo").available; }

 private:
  // Another project has the only device, so that all runs of demo wait.
  static model::State full_state() {
    World world(map_of(1, 1));
    auto spec = spec_of(1, 1);
    spec.project = "other";
    spec.timeout = hours(100);
    world.apply_event_ok(model::SubmitRun{spec, {}});
    return world.state;
  }

  Time now_ = Time(hours(24 * 365 * 50));
  Decider decider_;
};

TEST(StepBudget, ABudgetThatCrossesTheNeedsOfWaitingRunsSelectsThemInBothDirections) {
  ComparedWorld world;
  world.grant(hours(10));
  for (int number = 1; number <= 5; ++number) world.submit(hours(number));
  world.withdraw(hours(1));
  EXPECT_THAT(world.awaiting(), IsEmpty()) << "9 h are enough for each";
  world.withdraw(hours(4));
  EXPECT_THAT(world.awaiting(), IsEmpty()) << "5 h are just enough for the largest";
  world.withdraw(minutes(1));
  EXPECT_THAT(world.awaiting(), ElementsAre(5));
  world.withdraw(hours(3));
  EXPECT_THAT(world.awaiting(), ElementsAre(2, 3, 4, 5));
  world.grant(hours(2));
  world.decide(model::Tick{});
  EXPECT_THAT(world.awaiting(), ElementsAre(4, 5));
  world.withdraw(hours(1));
  EXPECT_THAT(world.awaiting(), ElementsAre(3, 4, 5)) << "the third one waits again";
}

TEST(StepBudget, ARunThatIsSubmittedOrExtendedLaterIsComparedToo) {
  ComparedWorld world;
  world.grant(hours(10));
  world.submit(hours(1));
  world.withdraw(hours(1));
  world.submit(hours(5));
  world.withdraw(hours(5));
  EXPECT_THAT(world.awaiting(), ElementsAre(2));
  world.decide(model::ExtendRun{{"demo", 1}, hours(2), "ann"});
  world.withdraw(hours(2));
  EXPECT_THAT(world.awaiting(), ElementsAre(1, 2));
}

TEST(StepBudget, AnotherWeightOfTheDevicesComparesAllRuns) {
  ComparedWorld world;
  world.grant(hours(10));
  world.submit(hours(3));
  world.withdraw(hours(1));
  world.set_weight(400);
  world.withdraw(minutes(1));
  EXPECT_THAT(world.awaiting(), ElementsAre(1)) << "it needs 12 h of 9";
}

TEST(StepBudget, TheDeciderSelectsTheSameRunsAsAStepFromNothing) {
  ComparedWorld world;
  world.grant(hours(6));
  Random random(7);
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  std::size_t fewest = 100, most = 0;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    const int kind = below(10);
    if (kind < 2) world.submit(minutes(10 + below(590)));
    if (kind == 2) world.set_weight(100 * (1 + below(3)));
    if (kind > 2 && kind < 6) world.decide(model::Tick{});
    if (kind >= 6 && world.available() > hours(6)) world.withdraw(minutes(1 + below(300)));
    if (kind >= 6 && world.available() <= hours(6)) world.grant(minutes(1 + below(300)));
    if (i == 200) world.withdraw(world.available());
    most = std::max(most, world.awaiting().size());
    if (i > 200) fewest = std::min(fewest, world.awaiting().size());
  }
  EXPECT_GT(most, fewest + 10);
}

TEST(StepBudget, BadRequestsChangeNothing) {
  BudgetWorld world;
  world.grant(hours(1));
  const auto before = world.state.budgets;
  for (const model::Event& event : std::initializer_list<model::Event>{
           model::GrantBudget{.project = "demo", .amount = hours(0), .ends = world.now + hours(1)},
           model::GrantBudget{.project = "demo", .amount = -hours(1), .ends = world.now + hours(1)},
           model::GrantBudget{.project = "demo", .amount = hours(1), .ends = world.now},
           model::GrantBudget{.project = "De mo", .amount = hours(1), .ends = world.now + hours(1)},
           model::WithdrawBudget{.project = "demo", .amount = hours(2)},
           model::WithdrawBudget{.project = "none", .amount = hours(2)},
           model::MoveBudget{.project = "demo", .to = "demo", .amount = minutes(1)},
           model::MoveBudget{.project = "none", .to = "demo", .amount = minutes(1)},
           model::LiftBudget{.project = "none"},
           model::SetRate{.kind = "h100", .weight_percent = 0},
       })
    EXPECT_FALSE(world.apply_event(event)) << event.index();
  EXPECT_EQ(world.state.budgets, before);
  EXPECT_TRUE(world.state.rates.empty());
}

}  // namespace
}  // namespace lockstep::step
