// The daemon dies at every second boundary of a small story, in turn, and the story ends the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/story_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

struct Manner {
  const char* name;
  Duration absence;     // of the daemon, after each death
  int deaths = 1;       // in a row: again at the first boundary after each restart
  bool echoes = false;  // all words come twice, the second time maybe minutes later
  Duration mute{};      // from each death on for so long no answer reaches an agent
  Duration blind{};     // from each death on for so long the engine cannot say what runs
  Duration slow{};      // the engine takes up to that long for each call
  int first = 0;        // the first boundary of those at which it dies, each time another
};

// A gang over both hosts that loses a rank in its first attempt; a run that waits for it; one that
// is stopped while it runs; one that is stopped, waited for and resumed; and one of which a rank
// stands still.
class DyingStory {
 public:
  explicit DyingStory(const Manner& manner) : manner_(manner), story_([this] { return die(); }) {}

  // Whether the daemon lived long enough to die at that boundary.
  bool tell(std::int64_t boundary) {
    World& world = story_.world();
    if (manner_.echoes) world.network().set_weather({.doubled = 100});
    world.engine().set_slow(manner_.slow);
    world.begin();
    world.life().doom_at(boundary);
    cast();
    world.pass_time(minutes(10), [this] { return done(); });
    const bool died = world.life().deaths() > 0;
    world.settle();
    return died;
  }

  Story& story() { return story_; }

 private:
  void cast() {
    story_.submit(
        Story::spec_of("gang", 2, 2),
        {.steps = 6, .misfortune = Misfortune::crashes, .bad_step = 4, .bad_attempts = 1});
    story_.submit(Story::spec_of("next", 1, 1), {.steps = 5});
    story_.submit(Story::spec_of("endless", 1, 1), {.steps = 1000});
    story_.stop_and_wait("endless");
    story_.submit(Story::spec_of("paused", 1, 2), {.steps = 60});
    story_.stop_and_wait("paused", [this] { story_.resume("paused"); });
    RunSpec held = Story::spec_of("held", 2, 1);
    held.hang_after = seconds(15);
    story_.submit(held, {.steps = 60});
    story_.stop_rank("held", 1);
  }

  Duration die() {
    Timeline& timeline = story_.world().scene().timeline;
    if (manner_.mute > Duration(0)) {
      story_.world().network().set_mute(true);
      timeline.after(manner_.mute, [this] { story_.world().network().set_mute(false); });
    }
    if (manner_.blind > Duration(0)) {
      story_.world().engine().set_blind(true);
      timeline.after(manner_.blind, [this] { story_.world().engine().set_blind(false); });
    }
    return manner_.absence;
  }

  bool done() {
    Life& life = story_.world().life();
    if (life.deaths() > seen_deaths_ && ++seen_deaths_ < manner_.deaths)
      life.doom_at(life.passed());
    return story_.world().durable().runs.size() == 5 && story_.world().durable().open.empty();
  }

  const Manner manner_;
  Story story_;
  int seen_deaths_ = 0;
};

// `causes`: of its attempts.
void expect_end(const Story& story, const std::string& name, RunState state,
                const std::vector<Cause>& causes) {
  SCOPED_TRACE(name);
  const Run& run = story.run(name);
  EXPECT_EQ(text(run.state), text(state)) << run.reason;
  ASSERT_EQ(run.epoch, std::ssize(causes)) << run.reason;
  for (std::int64_t epoch = 1; epoch <= run.epoch; ++epoch) {
    const Cause cause = causes[static_cast<std::size_t>(epoch) - 1];
    EXPECT_EQ(text(story.attempt(name, epoch).cause), text(cause));
  }
}

class EachBoundary : public testing::TestWithParam<Manner> {};

TEST_P(EachBoundary, EndsTheStoryAsIfTheDaemonHadLived) {
  std::int64_t boundary = GetParam().first;
  for (bool died = true; died; boundary += 2) {
    SCOPED_TRACE(boundary);
    DyingStory dying(GetParam());
    died = dying.tell(boundary);
    Story& story = dying.story();
    const Verdict verdict = story.world().verdict();
    ASSERT_FALSE(verdict.violation) << *verdict.violation;
    ASSERT_EQ(story.world().durable().runs.size(), 5u);
    expect_end(story, "gang", RunState::succeeded, {Cause::rank_lost, Cause::ok});
    expect_end(story, "next", RunState::succeeded, {Cause::ok});
    expect_end(story, "endless", RunState::cancelled, {Cause::cancelled});
    expect_end(story, "paused", RunState::succeeded, {Cause::cancelled, Cause::ok});
    expect_end(story, "held", RunState::succeeded, {Cause::hung, Cause::ok});
    EXPECT_THAT(story.attempt("held", 1).reason, HasSubstr("rank 1 on host b hangs"));
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(boundary, 100) << "the story has as many boundaries, or more";
}
INSTANTIATE_TEST_SUITE_P(
    Manners, EachBoundary,
    testing::Values(
        Manner{.name = "AMoment", .absence = milliseconds(100)},
        Manner{.name = "AWhile", .absence = seconds(20), .first = 1},
        Manner{.name = "Twice", .absence = seconds(1), .deaths = 2},
        Manner{.name = "FiveTimes", .absence = seconds(1), .deaths = 5, .first = 1},
        Manner{.name = "AmidEchoes", .absence = seconds(1), .echoes = true},
        Manner{.name = "WithItsAnswersLost", .absence = seconds(1), .mute = seconds(8), .first = 1},
        Manner{.name = "WithoutAList", .absence = seconds(1), .blind = seconds(40)},
        Manner{.name = "AtASlowEngine", .absence = seconds(1), .slow = seconds(3), .first = 1}),
    [](const auto& manner) { return std::string(manner.param.name); });

}  // namespace
}  // namespace lockstep::sim
