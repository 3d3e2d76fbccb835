// The daemon crashes at every fourth boundary of a small scenario, in turn, and the scenario ends
// the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct CrashSchedule {
  const char* name;
  Duration downtime;                // of the daemon, after each crash
  int crashes = 1;                  // in a row: again at the first boundary after each restart
  bool duplicates_reports = false;  // duplicates all messages, the second one maybe minutes later
  Duration answers_lost{};          // after each crash, no answer reaches an agent for so long
  Duration list_fails{};            // after each crash, the engine cannot list agents for so long
  Duration slow{};                  // the engine takes up to that long for each call
  int first = 0;  // the first boundary at which it crashes; a different one each time
};

// A gang over both hosts that loses a rank in its first attempt; a run that waits for it; one that
// is stopped while it runs; one that is stopped, waited for and resumed; and one with a suspended
// rank.
class CrashScenario {
 public:
  explicit CrashScenario(const CrashSchedule& manner)
      : schedule_(manner), scenario_([this] { return on_crash(); }) {}

  // True if the daemon lived long enough to crash at that boundary.
  bool run(std::int64_t boundary) {
    Simulation& world = scenario_.world();
    if (schedule_.duplicates_reports) world.network().set_faults({.duplicated_percent = 100});
    world.engine().set_slow(schedule_.slow);
    world.begin();
    world.crash_points().crash_at(boundary);
    submit_runs();
    world.advance(minutes(10), [this] { return done(); });
    const bool died = world.crash_points().crashes() > 0;
    world.run_to_rest();
    return died;
  }

  SimScenario& scenario() { return scenario_; }

 private:
  void submit_runs() {
    scenario_.submit(
        SimScenario::spec_of("gang", 2, 2),
        {.steps = 6, .fault = ProgramFault::crashes, .fault_step = 4, .faulty_attempts = 1});
    scenario_.submit(SimScenario::spec_of("next", 1, 1), {.steps = 5});
    scenario_.submit(SimScenario::spec_of("endless", 1, 1), {.steps = 1000});
    scenario_.stop_and_wait("endless");
    scenario_.submit(SimScenario::spec_of("paused", 1, 2), {.steps = 60});
    scenario_.stop_and_wait("paused", [this] { scenario_.resume("paused"); });
    model::RunSpec held = SimScenario::spec_of("held", 2, 1);
    held.hang_after = seconds(15);
    scenario_.submit(held, {.steps = 60});
    scenario_.suspend_rank("held", 1);
  }

  Duration on_crash() {
    Timeline& timeline = scenario_.world().context().timeline;
    if (schedule_.answers_lost > Duration(0)) {
      scenario_.world().network().set_answers_lost(true);
      timeline.after(schedule_.answers_lost,
                     [this] { scenario_.world().network().set_answers_lost(false); });
    }
    if (schedule_.list_fails > Duration(0)) {
      scenario_.world().engine().set_list_fails(true);
      timeline.after(schedule_.list_fails,
                     [this] { scenario_.world().engine().set_list_fails(false); });
    }
    return schedule_.downtime;
  }

  bool done() {
    CrashPoints& life = scenario_.world().crash_points();
    if (life.crashes() > seen_crashes_ && ++seen_crashes_ < schedule_.crashes)
      life.crash_at(life.passed());
    return scenario_.world().durable().runs.size() == 5 && scenario_.world().durable().open.empty();
  }

  const CrashSchedule schedule_;
  SimScenario scenario_;
  int seen_crashes_ = 0;
};

// `causes`: of its attempts.
void expect_end(const SimScenario& story, const std::string& name, model::RunState state,
                const std::vector<model::Cause>& causes) {
  SCOPED_TRACE(name);
  const model::Run& run = story.run(name);
  EXPECT_EQ(text(run.state), text(state)) << run.reason;
  ASSERT_EQ(run.epoch, std::ssize(causes)) << run.reason;
  for (std::int64_t epoch = 1; epoch <= run.epoch; ++epoch) {
    const model::Cause cause = causes[static_cast<std::size_t>(epoch) - 1];
    EXPECT_EQ(text(story.attempt(name, epoch).cause), text(cause));
  }
}

class EachBoundary : public testing::TestWithParam<CrashSchedule> {};

TEST_P(EachBoundary, EndsTheStoryAsIfTheDaemonHadLived) {
  std::int64_t boundary = GetParam().first;
  for (bool died = true; died; boundary += 4) {
    SCOPED_TRACE(boundary);
    CrashScenario dying(GetParam());
    died = dying.run(boundary);
    SimScenario& story = dying.scenario();
    const SimulationOutcome verdict = story.world().result();
    ASSERT_FALSE(verdict.violation) << *verdict.violation;
    ASSERT_EQ(story.world().durable().runs.size(), 5u);
    expect_end(story, "gang", model::RunState::succeeded,
               {model::Cause::rank_lost, model::Cause::ok});
    expect_end(story, "next", model::RunState::succeeded, {model::Cause::ok});
    expect_end(story, "endless", model::RunState::cancelled, {model::Cause::cancelled});
    expect_end(story, "paused", model::RunState::succeeded,
               {model::Cause::cancelled, model::Cause::ok});
    expect_end(story, "held", model::RunState::succeeded, {model::Cause::hung, model::Cause::ok});
    EXPECT_THAT(story.attempt("held", 1).reason, HasSubstr("rank 1 on host b hangs"));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(boundary, 100) << "the story has as many boundaries, or more";
}
INSTANTIATE_TEST_SUITE_P(
    Manners, EachBoundary,
    testing::Values(
        CrashSchedule{.name = "AMoment", .downtime = milliseconds(100)},
        CrashSchedule{.name = "AWhile", .downtime = seconds(20), .first = 1},
        CrashSchedule{.name = "Twice", .downtime = seconds(1), .crashes = 2, .first = 2},
        CrashSchedule{.name = "FiveTimes", .downtime = seconds(1), .crashes = 5, .first = 3},
        CrashSchedule{.name = "AmidEchoes", .downtime = seconds(1), .duplicates_reports = true},
        CrashSchedule{.name = "WithItsAnswersLost",
                      .downtime = seconds(1),
                      .answers_lost = seconds(8),
                      .first = 1},
        CrashSchedule{
            .name = "WithoutAList", .downtime = seconds(1), .list_fails = seconds(40), .first = 2},
        CrashSchedule{
            .name = "AtASlowEngine", .downtime = seconds(1), .slow = seconds(3), .first = 3}),
    [](const auto& manner) { return std::string(manner.param.name); });

}  // namespace
}  // namespace lockstep::sim
