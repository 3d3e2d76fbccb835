// Runs that make room for others: moved, paused and evicted, while the daemon dies at each boundary
// of the story in turn.
#include <gtest/gtest.h>

#include "sim/story_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

RunSpec spec_of(const std::string& name, int nodes, int devices, Duration timeout) {
  RunSpec spec = Story::spec_of(name, nodes, devices);
  spec.timeout = timeout;
  return spec;
}

// Two runs of one device, one on each host, once a third has ended; then one that wants a whole
// host.
void cast_a_move(Story& story, Duration stop_time) {
  story.submit(spec_of("short", 1, 1, minutes(10)), {.steps = 5});
  for (const char* name : {"one", "two"})
    story.submit(spec_of(name, 1, 1, minutes(10)), {.steps = 40, .stop_time = stop_time});
  story.until_done([&story] {
    if (!story.is("short", RunState::succeeded)) return false;
    story.submit(spec_of("whole", 1, 2, minutes(10)), {.steps = 5});
    return true;
  });
}

void cast_a_quick_move(Story& story) { cast_a_move(story, milliseconds(100)); }

// Two runs that fill both hosts, and one that stands ahead of them.
void cast_a_pause(Story& story) {
  story.submit(spec_of("one", 1, 2, minutes(10)), {.steps = 60});
  story.submit(spec_of("two", 1, 2, minutes(10)), {.steps = 60});
  story.world().scene().timeline.after(
      seconds(5), [&story] { story.submit(spec_of("whole", 1, 2, minutes(1)), {.steps = 5}); });
}

// One on all devices, on which it has no right, and one that has.
void cast_an_eviction(Story& story) {
  RunSpec spec = spec_of("one", 2, 2, minutes(10));
  spec.run_class = RunClass::preemptible;
  story.submit(spec, {.steps = 40});
  story.world().scene().timeline.after(
      seconds(10), [&story] { story.submit(spec_of("whole", 1, 2, minutes(10)), {.steps = 5}); });
}

struct Play {
  const char* name;
  Cause cause;
  void (*cast)(Story&);
  std::size_t runs;
  Duration absence;  // of the daemon
};

class Departure : public testing::TestWithParam<Play> {};

// The attempts that had to make room.
std::vector<const Attempt*> displaced(const State& state) {
  std::vector<const Attempt*> found;
  for (const auto& [id, attempt] : state.attempts)
    if (makes_room(attempt.cause)) found.push_back(&attempt);
  return found;
}

// Who is paused for it may have another paused in his turn that stands behind him.
void expect_departure(Story& story, Cause cause) {
  const State& state = story.world().durable();
  bool for_it = false;
  for (const Attempt* attempt : displaced(state)) {
    EXPECT_EQ(text(attempt->cause), text(cause));
    const Run& run = state.runs.at(attempt->id.run);
    EXPECT_EQ(run.epoch, 2);
    EXPECT_EQ(run.losses + run.user_exits, 0);
    EXPECT_EQ(run.moves, cause == Cause::moved ? 1 : 0);
    if (!attempt->reason.ends_with("to make room for " + text(story.run("whole").id))) continue;
    for_it = true;
    EXPECT_LT(story.attempt("whole", 1).created, *run.ended);
  }
  EXPECT_TRUE(for_it);
  for (const auto& [id, one] : state.runs) EXPECT_EQ(text(one.state), "succeeded") << one.reason;
}

// Where it stood: it stands ahead of whom it was to make room for.
TEST(ARunThatMoves, BeginsElsewhereIfItsNextHostIsClosedMeanwhile) {
  Story story([] { return milliseconds(100); });
  World& world = story.world();
  world.begin();
  cast_a_move(story, seconds(3));
  std::string closed;
  story.until_done([&] {
    for (const Attempt* attempt : displaced(world.durable())) {
      closed = attempt->moves_to.front().host;
      return world.daemon().change(SetHost{closed, HostState::closed, "ann", ""}).has_value();
    }
    return false;
  });
  world.pass_time(minutes(1), [&] { return !closed.empty(); });
  ASSERT_EQ(displaced(world.durable()).size(), 1u);
  const RunId moved = displaced(world.durable()).front()->id.run;
  const auto has_moved = [&] { return world.durable().runs.at(moved).epoch == 2; };
  ASSERT_TRUE(world.pass_time(minutes(1), has_moved));
  EXPECT_NE(world.durable().nodes.at({{moved, 2}, 0}).host, closed);
  ASSERT_TRUE(world.daemon().change(SetHost{closed, HostState::open, "ann", ""}));
  world.settle();
  EXPECT_FALSE(world.verdict().violation) << *world.verdict().violation;
}

TEST_P(Departure, CostsNoRetryThoughTheDaemonDies) {
  const Play& play = GetParam();
  bool died = true;
  for (std::int64_t boundary = 0; died; boundary += 3) {
    SCOPED_TRACE(boundary);
    Story story([&] { return play.absence; });
    World& world = story.world();
    world.begin();
    world.life().doom_at(boundary);
    play.cast(story);
    world.pass_time(minutes(10), [&] {
      return world.durable().runs.size() == play.runs && world.durable().open.empty();
    });
    died = world.life().deaths() > 0;
    world.settle();
    ASSERT_FALSE(world.verdict().violation) << *world.verdict().violation;
    expect_departure(story, play.cause);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Plays, Departure,
    testing::Values(Play{"AMove", Cause::moved, cast_a_quick_move, 4, milliseconds(100)},
                    Play{"AMoveAmidAnAbsence", Cause::moved, cast_a_quick_move, 4, seconds(5)},
                    Play{"APause", Cause::paused, cast_a_pause, 3, milliseconds(100)},
                    Play{"AnEviction", Cause::evicted, cast_an_eviction, 2, milliseconds(100)}),
    [](const auto& play) { return std::string(play.param.name); });

}  // namespace
}  // namespace lockstep::sim
