// A rank that is alive and makes no progress: its attempt ends of that, whoever else gives up first
// and whatever becomes of the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/story_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct Hang {
  const char* name;
  Duration hang_after = seconds(30);
  Duration patience{};    // of its peers; zero: they wait for ever
  Duration dies_after{};  // after the rank was stopped the daemon dies; zero: it lives
  Duration absence = seconds(1);
};

class AStoppedRank : public testing::TestWithParam<Hang> {
 protected:
  // Two nodes with a rank each; what befalls rank 1 is for the test to say.
  void tell(std::function<void(Agent&)> then) {
    RunSpec spec = Story::spec_of("run", 2, 1);
    spec.hang_after = GetParam().hang_after;
    story_.world().begin();
    story_.submit(spec, {.steps = 40, .patience = GetParam().patience});
    story_.stop_rank("run", 1, std::move(then));
    story_.world().pass_time(minutes(20), [this] {
      return story_.known("run") && story_.world().durable().open.empty();
    });
    story_.world().settle();
  }
  Timeline& timeline() { return story_.world().scene().timeline; }

  Story story_{[] { return GetParam().absence; }};
};

TEST_P(AStoppedRank, EndsItsAttemptAsHungAndTheNextGoesOn) {
  Duration stopped{};
  tell([&](Agent&) {
    stopped = timeline().now();
    if (GetParam().dies_after > Duration(0))
      timeline().after(GetParam().dies_after,
                       [this] { story_.world().daemon().die("while a rank hangs"); });
  });
  EXPECT_GT(stopped, Duration(0));
  ASSERT_FALSE(story_.world().verdict().violation) << *story_.world().verdict().violation;
  EXPECT_EQ(story_.attempt("run", 1).cause, Cause::hung);
  EXPECT_THAT(story_.attempt("run", 1).reason, HasSubstr("rank 1 on host b hangs"));
  EXPECT_THAT(story_.attempt("run", 1).reason, HasSubstr("its process is stopped"));
  EXPECT_EQ(story_.run("run").state, RunState::succeeded) << story_.run("run").reason;
  EXPECT_EQ(story_.run("run").epoch, 2);
  EXPECT_EQ(story_.run("run").losses, 1);
}

TEST_P(AStoppedRank, ThatGoesOnInTimeCostsNothing) {
  tell([&](Agent& agent) {
    timeline().after(seconds(5), [kept = agent.shared_from_this()] { kept->continue_rank(0); });
  });
  ASSERT_FALSE(story_.world().verdict().violation) << *story_.world().verdict().violation;
  EXPECT_EQ(story_.run("run").state, RunState::succeeded) << story_.run("run").reason;
  EXPECT_EQ(story_.run("run").epoch, 1);
}

// One of two ranks of a node; the other gives up, and no answer reaches the agent until the rank
// goes on.
class ARankThatWasFoundStopped : public testing::TestWithParam<bool> {};

TEST_P(ARankThatWasFoundStopped, IsToBlameThoughItGoesOnBeforeItsAgentIsToldToStop) {
  Story story([] { return seconds(1); });
  World& world = story.world();
  RunSpec spec = Story::spec_of("run", 1, 2);
  spec.hang_after = Duration(0);
  world.begin();
  story.submit(spec, {.steps = 40, .notices_peers = GetParam(), .patience = seconds(15)});
  story.stop_rank("run", 1, [&](Agent&) {
    world.scene().timeline.after(seconds(14), [&] { world.network().set_mute(true); });
    story.until_done([&] {
      if (story.attempt("run", 1).cause != Cause::hung) return false;
      story.agent_of("run", 0)->continue_rank(1);
      world.network().set_mute(false);
      return true;
    });
  });
  world.pass_time(minutes(20), [&] { return story.is("run", RunState::succeeded); });
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
  EXPECT_EQ(text(story.attempt("run", 1).cause), "hung");
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("rank 1 on host a hangs"));
  EXPECT_EQ(story.run("run").epoch, 2);
}
INSTANTIATE_TEST_SUITE_P(AndItsPeers, ARankThatWasFoundStopped, testing::Bool(),
                         [](const auto& peers) {
                           return std::string(peers.param ? "Notice" : "DoNotNotice");
                         });

// Its attempt is older than its time-out by then, by the clock. The rank goes on when it has been
// asked to end, so that nothing is left to see of the hang.
TEST(ANodeThatEndsItsRanksForAHang, HasNotTimedOutThoughTheClockWasSetForwardAsTheyStarted) {
  Story story([] { return minutes(4); });
  World& world = story.world();
  RunSpec spec = Story::spec_of("run", 1, 1);
  spec.hang_after = seconds(30);
  spec.timeout = minutes(10);
  world.begin();
  story.submit(spec, {.steps = 40, .stop_time = seconds(3)});
  world.truth().touch_all();
  world.scene().clock.jump(minutes(20));
  story.stop_rank("run", 0, [&](Agent& agent) {
    world.daemon().die("while a rank hangs");
    story.until_done([kept = agent.shared_from_this()] {
      if (!kept->stops()) return false;
      kept->continue_rank(0);
      return true;
    });
  });
  world.pass_time(minutes(20), [&] { return story.is("run", RunState::succeeded); });
  world.settle();
  ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
  EXPECT_EQ(text(story.attempt("run", 1).cause), "node_lost");
  EXPECT_THAT(story.attempt("run", 1).reason, HasSubstr("a rank hangs, and the daemon does not"));
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
