// Tests of a rank that is alive and makes no progress. The attempt ends because of it, whichever
// other rank gives up first and whatever happens to the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct Hang {
  const char* name;
  Duration hang_after = seconds(30);
  Duration patience{};    // of its peers; zero: they wait without a limit
  Duration dies_after{};  // the daemon crashes so long after the rank was stopped; zero: it lives
  Duration absence = seconds(1);
};

class AStoppedRank : public testing::TestWithParam<Hang> {
 protected:
  // Two nodes with a rank each; `then` injects the fault of rank 1.
  void run_scenario(std::function<void(Agent&)> then) {
    model::RunSpec spec = SimScenario::spec_of("run", 2, 1);
    spec.hang_after = GetParam().hang_after;
    story_.world().begin();
    story_.submit(spec, {.steps = 40, .step_timeout = GetParam().patience});
    story_.suspend_rank("run", 1, std::move(then));
    story_.world().advance(minutes(20), [this] {
      return story_.known("run") && story_.world().durable().open.empty();
    });
    story_.world().run_to_rest();
  }
  Timeline& timeline() { return story_.world().context().timeline; }

  SimScenario story_{[] { return GetParam().absence; }};
};

TEST_P(AStoppedRank, EndsItsAttemptAsHungAndTheNextGoesOn) {
  Duration stopped{};
  run_scenario([&](Agent&) {
    stopped = timeline().now();
    if (GetParam().dies_after > Duration(0))
      timeline().after(GetParam().dies_after,
                       [this] { story_.world().daemon().crash("while a rank hangs"); });
  });
  EXPECT_GT(stopped, Duration(0));
  ASSERT_FALSE(story_.world().result().violation) << *story_.world().result().violation;
  EXPECT_EQ(story_.attempt("run", 1).cause, model::Cause::hung);
  EXPECT_THAT(story_.attempt("run", 1).reason, HasSubstr("rank 1 on host b hangs"));
  EXPECT_THAT(story_.attempt("run", 1).reason, HasSubstr("its process is stopped"));
  EXPECT_EQ(story_.run("run").state, model::RunState::succeeded) << story_.run("run").reason;
  EXPECT_EQ(story_.run("run").epoch, 2);
  EXPECT_EQ(story_.run("run").losses, 1);
}

TEST_P(AStoppedRank, ThatGoesOnInTimeCostsNothing) {
  run_scenario([&](Agent& agent) {
    timeline().after(seconds(5), [kept = agent.shared_from_this()] { kept->resume_rank(0); });
  });
  ASSERT_FALSE(story_.world().result().violation) << *story_.world().result().violation;
  EXPECT_EQ(story_.run("run").state, model::RunState::succeeded) << story_.run("run").reason;
  EXPECT_EQ(story_.run("run").epoch, 1);
}

// One of two ranks of a node is suspended. The other gives up, and no answer reaches the agent
// until the first is resumed.
class ARankThatWasFoundStopped : public testing::TestWithParam<bool> {};

TEST_P(ARankThatWasFoundStopped, IsToBlameThoughItGoesOnBeforeItsAgentIsToldToStop) {
  SimScenario story([] { return seconds(1); });
  Simulation& world = story.world();
  model::RunSpec spec = SimScenario::spec_of("run", 1, 2);
  spec.hang_after = Duration(0);
  world.begin();
  story.submit(spec, {.steps = 40, .exits_on_peer_loss = GetParam(), .step_timeout = seconds(15)});
  story.suspend_rank("run", 1, [&](Agent&) {
    world.context().timeline.after(seconds(14), [&] { world.network().set_answers_lost(true); });
    story.until_done([&] {
      if (story.attempt("run", 1).cause != model::Cause::hung) return false;
      story.agent_of("run", 0)->resume_rank(1);
      world.network().set_answers_lost(false);
      return true;
    });
  });
  world.advance(minutes(20), [&] { return story.is("run", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(text(story.attempt("run", 1).cause), "hung");
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("rank 1 on host a hangs"));
  EXPECT_EQ(story.run("run").epoch, 2);
}
INSTANTIATE_TEST_SUITE_P(AndItsPeers, ARankThatWasFoundStopped, testing::Bool(),
                         [](const auto& peers) {
                           return std::string(peers.param ? "Notice" : "DoNotNotice");
                         });

// By the clock, its attempt is older than its time-out by then. The rank is resumed when it gets
// the signal to end, and its agent still reports that it hung before.
TEST(ANodeThatEndsItsRanksForAHang, HasNotTimedOutThoughTheClockWasSetForwardAsTheyStarted) {
  SimScenario story([] { return minutes(4); });
  Simulation& world = story.world();
  model::RunSpec spec = SimScenario::spec_of("run", 1, 1);
  spec.hang_after = seconds(30);
  spec.timeout = minutes(10);
  world.begin();
  story.submit(spec, {.steps = 40, .stop_time = seconds(3)});
  world.truth().mark_all_disturbed();
  world.context().clock.jump(minutes(20));
  story.suspend_rank("run", 0, [&](Agent& agent) {
    world.daemon().crash("while a rank hangs");
    story.until_done([kept = agent.shared_from_this()] {
      if (!kept->is_stopping()) return false;
      kept->resume_rank(0);
      return true;
    });
  });
  world.advance(minutes(20), [&] { return story.is("run", model::RunState::succeeded); });
  world.run_to_rest();
  ASSERT_FALSE(world.result().violation) << *world.result().violation;
  EXPECT_EQ(text(story.attempt("run", 1).cause), "hung");
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("rank 0 on host a hangs"));
  EXPECT_EQ(story.run("run").epoch, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Hangs, AStoppedRank,
    testing::Values(Hang{.name = "IsFoundByTheClock"},
                    Hang{.name = "IsBlamedForPeersThatGiveUp", .patience = seconds(15)},
                    Hang{.name = "IsBlamedWhereNobodyWatchesTheClock",
                         .hang_after = Duration(0),
                         .patience = seconds(20)},
                    Hang{.name = "IsFoundByTheNextDaemon", .dies_after = seconds(10)},
                    Hang{.name = "IsEndedByItsAgentWhileTheDaemonIsAway",
                         .dies_after = seconds(10),
                         .absence = minutes(4)},
                    Hang{.name = "IsBlamedByANewDaemonForPeersThatGaveUp",
                         .patience = seconds(15),
                         .dies_after = seconds(10),
                         .absence = minutes(4)}),
    [](const auto& hang) { return std::string(hang.param.name); });

}  // namespace
}  // namespace lockstep::sim
