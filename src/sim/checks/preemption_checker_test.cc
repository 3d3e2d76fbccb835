// Preempted runs: moved, paused and evicted, while the daemon dies at each boundary
// of the story in turn.
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

model::RunSpec spec_of(const std::string& name, int nodes, int devices, Duration timeout) {
  model::RunSpec spec = SimScenario::spec_of(name, nodes, devices);
  spec.timeout = timeout;
  return spec;
}

// Two runs of one device, one on each host, once a third has ended; then one that needs a whole
// host.
void submit_for_move(SimScenario& story, Duration stop_time) {
  story.submit(spec_of("short", 1, 1, minutes(10)), {.steps = 5});
  for (const char* name : {"one", "two"})
    story.submit(spec_of(name, 1, 1, minutes(10)), {.steps = 40, .stop_time = stop_time});
  story.until_done([&story] {
    if (!story.is("short", model::RunState::succeeded)) return false;
    story.submit(spec_of("whole", 1, 2, minutes(10)), {.steps = 5});
    return true;
  });
}

void submit_for_quick_move(SimScenario& story) { submit_for_move(story, milliseconds(100)); }

// Two runs that fill both hosts, and one that is ahead of them.
void submit_for_pause(SimScenario& story) {
  story.submit(spec_of("one", 1, 2, minutes(10)), {.steps = 60});
  story.submit(spec_of("two", 1, 2, minutes(10)), {.steps = 60});
  story.world().context().timeline.after(
      seconds(5), [&story] { story.submit(spec_of("whole", 1, 2, minutes(1)), {.steps = 5}); });
}

// A run on all devices, which is preemptible, and one that is not.
void submit_for_eviction(SimScenario& story) {
  model::RunSpec spec = spec_of("one", 2, 2, minutes(10));
  spec.run_class = model::RunClass::preemptible;
  story.submit(spec, {.steps = 40});
  story.world().context().timeline.after(
      seconds(10), [&story] { story.submit(spec_of("whole", 1, 2, minutes(10)), {.steps = 5}); });
}

struct PreemptionCase {
  const char* name;
  model::Cause cause;
  void (*submit)(SimScenario&);
  std::size_t runs;
  Duration downtime;  // of the daemon
};

class Departure : public testing::TestWithParam<PreemptionCase> {};

// The attempts that were preempted.
std::vector<const model::Attempt*> displaced(const model::State& state) {
  std::vector<const model::Attempt*> found;
  for (const auto& [id, attempt] : state.attempts)
    if (model::is_preemption(attempt.cause)) found.push_back(&attempt);
  return found;
}

// A run that is paused for it may in turn have a run behind it paused.
void expect_preemption(SimScenario& story, model::Cause cause) {
  const model::State& state = story.world().durable();
  bool for_it = false;
  for (const model::Attempt* attempt : displaced(state)) {
    EXPECT_EQ(text(attempt->cause), text(cause));
    const model::Run& run = state.runs.at(attempt->id.run);
    EXPECT_EQ(run.epoch, 2);
    EXPECT_EQ(run.losses + run.user_exits, 0);
    EXPECT_EQ(run.moves, cause == model::Cause::moved ? 1 : 0);
    if (!attempt->reason.ends_with("to make room for " + text(story.run("whole").id))) continue;
    for_it = true;
    EXPECT_LT(story.attempt("whole", 1).created, *run.ended);
  }
  EXPECT_TRUE(for_it);
  for (const auto& [id, one] : state.runs) EXPECT_EQ(text(one.state), "succeeded") << one.reason;
}

// The run keeps its queue position: it is ahead of the run for which it was preempted.
TEST(ARunThatMoves, BeginsElsewhereIfItsNextHostIsClosedMeanwhile) {
  SimScenario story([] { return milliseconds(100); });
  Simulation& world = story.world();
  world.begin();
  submit_for_move(story, seconds(3));
  std::string closed;
  story.until_done([&] {
    for (const model::Attempt* attempt : displaced(world.durable())) {
      closed = attempt->move_destination.front().host;
      return world.daemon()
          .change(model::SetHost{closed, model::HostState::closed, "ann", ""})
          .has_value();
    }
    return false;
  });
  world.advance(minutes(1), [&] { return !closed.empty(); });
  ASSERT_EQ(displaced(world.durable()).size(), 1u);
  const model::RunId moved = displaced(world.durable()).front()->id.run;
  const auto has_moved = [&] { return world.durable().runs.at(moved).epoch == 2; };
  ASSERT_TRUE(world.advance(minutes(1), has_moved));
  EXPECT_NE(world.durable().nodes.at({{moved, 2}, 0}).host, closed);
  ASSERT_TRUE(world.daemon().change(model::SetHost{closed, model::HostState::open, "ann", ""}));
  world.run_to_rest();
  EXPECT_FALSE(world.result().violation) << *world.result().violation;
}

TEST_P(Departure, CostsNoRetryThoughTheDaemonDies) {
  const PreemptionCase& play = GetParam();
  bool died = true;
  for (std::int64_t boundary = 0; died; boundary += 3) {
    SCOPED_TRACE(boundary);
    SimScenario story([&] { return play.downtime; });
    Simulation& world = story.world();
    world.begin();
    world.crash_points().crash_at(boundary);
    play.submit(story);
    world.advance(minutes(10), [&] {
      return world.durable().runs.size() == play.runs && world.durable().open.empty();
    });
    died = world.crash_points().crashes() > 0;
    world.run_to_rest();
    ASSERT_FALSE(world.result().violation) << *world.result().violation;
    expect_preemption(story, play.cause);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Plays, Departure,
                         testing::Values(PreemptionCase{"AMove", model::Cause::moved,
                                                        submit_for_quick_move, 4,
                                                        milliseconds(100)},
                                         PreemptionCase{"AMoveAmidAnAbsence", model::Cause::moved,
                                                        submit_for_quick_move, 4, seconds(5)},
                                         PreemptionCase{"APause", model::Cause::paused,
                                                        submit_for_pause, 3, milliseconds(100)},
                                         PreemptionCase{"AnEviction", model::Cause::evicted,
                                                        submit_for_eviction, 2, milliseconds(100)}),
                         [](const auto& play) { return std::string(play.param.name); });

}  // namespace
}  // namespace lockstep::sim
