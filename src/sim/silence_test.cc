// A daemon that hears none of its agents for a while, or is too slow to: nothing is lost.
#include <algorithm>
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A run on both hosts and one beside it, of five minutes each.
class Silence : public testing::Test {
 protected:
  void submit_runs() {
    world_.begin();
    story_.submit(SimScenario::spec_of("gang", 2, 1), {.steps = 300});
    story_.submit(SimScenario::spec_of("other", 1, 1), {.steps = 300});
    world_.advance(minutes(1), [&] {
      return story_.is("gang", model::RunState::running) &&
             story_.is("other", model::RunState::running);
    });
  }
  void expect_success_at_once() {
    world_.advance(minutes(20), [&] {
      return story_.is("gang", model::RunState::succeeded) &&
             story_.is("other", model::RunState::succeeded);
    });
    world_.run_to_rest();
    ASSERT_FALSE(world_.result().violation) << *world_.result().violation;
    for (const char* name : {"gang", "other"}) {
      EXPECT_EQ(story_.run(name).epoch, 1) << story_.attempt(name, 1).reason;
      EXPECT_EQ(story_.run(name).state, model::RunState::succeeded);
    }
    EXPECT_TRUE(world_.durable().hosts.empty());
  }
  bool any_unreachable() const {
    return std::ranges::any_of(world_.durable().nodes, [](const auto& entry) {
      return entry.second.unreachable_since.has_value();
    });
  }

  SimScenario story_{[] { return seconds(1); }};
  Simulation& world_ = story_.world();
};

// A daemon that never takes silence for widespread.
TEST(SilenceChecks, FindADaemonThatTakesManySilentNodesForLost) {
  model::Settings settings = simulated_settings();
  settings.widespread_percent = 100;
  SimScenario story([] { return seconds(1); }, settings);
  story.world().begin();
  story.submit(SimScenario::spec_of("gang", 2, 1), {.steps = 300});
  story.world().advance(minutes(1), [&] { return story.is("gang", model::RunState::running); });
  story.world().network().cut_off({"a", "b"});
  story.world().advance(minutes(5), [&] { return story.world().result().violation.has_value(); });
  EXPECT_THAT(story.world().result().violation.value_or("nothing"),
              HasSubstr("but it met no fault"));
}

TEST_F(Silence, OfAllAgentsForFiveMinutesCostsNothing) {
  submit_runs();
  world_.network().cut_off({"a", "b"});
  world_.advance(minutes(5), [] { return false; });
  EXPECT_TRUE(any_unreachable());
  world_.network().cut_off({});
  expect_success_at_once();
}

TEST_F(Silence, OfAllAgentsLastsOverARestartOfTheDaemon) {
  submit_runs();
  world_.network().cut_off({"a", "b"});
  world_.advance(minutes(3), [] { return false; });
  world_.daemon().crash("while it is cut off");
  world_.advance(minutes(1), [] { return false; });
  world_.network().cut_off({});
  expect_success_at_once();
}

TEST_F(Silence, OfRanksThatEndMeanwhileIsOverWhenTheirAgentsReport) {
  submit_runs();
  world_.network().cut_off({"a", "b"});
  world_.advance(minutes(8), [] { return false; });
  EXPECT_FALSE(story_.is("gang", model::RunState::succeeded));
  world_.network().cut_off({});
  expect_success_at_once();
}

TEST_F(Silence, OfAgentsThatASlowDaemonDoesNotAnswerIsNone) {
  submit_runs();
  world_.daemon().set_turn_time(seconds(9));
  world_.network().set_daemon_slow(true);
  world_.advance(minutes(4), [&] { return any_unreachable(); });
  EXPECT_FALSE(any_unreachable());
  world_.daemon().set_turn_time(Duration(0));
  world_.network().set_daemon_slow(false);
  expect_success_at_once();
}

}  // namespace
}  // namespace lockstep::sim
