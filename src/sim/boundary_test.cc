// The daemon dies once at each boundary of a small story, in turn, and the story ends the same.
#include <gtest/gtest.h>

#include "sim/world.h"

namespace lockstep::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Map two_hosts() {
  Map map;
  Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (auto id : {"a", "b"}) {
    Host& host = leaf.hosts.emplace_back();
    host.id = id;
    for (int number : {0, 1})
      host.islands.emplace_back().devices.push_back({DeviceKind::gpu, number, {}, false});
  }
  return map;
}

struct Manner {
  Duration absence;  // of the daemon, after each death
  int deaths = 1;    // in a row: again at the first boundary after each restart
};

// On two hosts of two devices: a gang over both that loses a rank in its first attempt; another run
// that waits for it; one that is stopped while it runs.
class Story {
 public:
  explicit Story(const Manner& manner)
      : manner_(manner),
        world_({.map = two_hosts(), .absence = [this] { return manner_.absence; }}) {}

  // Whether the daemon lived long enough to die at that boundary.
  bool tell(std::int64_t boundary) {
    world_.begin();
    world_.life().doom_at(boundary);
    submit("gang", 2, 2,
           {.steps = 6, .misfortune = Misfortune::crashes, .bad_step = 4, .bad_attempts = 1});
    submit("next", 1, 1, {.steps = 5});
    submit("endless", 1, 1, {.steps = 1000});
    stop("endless");
    world_.pass_time(minutes(10), [this] { return done(); });
    const bool died = world_.life().deaths() > 0;
    world_.settle();
    return died;
  }

  const Run& run(const std::string& name) const {
    for (const auto& [id, run] : world_.durable().runs)
      if (run.spec.name == name) return run;
    LS_CHECK(false, "there is no run {}", name);
  }
  const State& durable() const { return world_.durable(); }
  Verdict verdict() const { return world_.verdict(); }

 private:
  bool known(const std::string& name) const {
    return std::ranges::any_of(world_.durable().runs,
                               [&](const auto& entry) { return entry.second.spec.name == name; });
  }
  bool done() {
    if (world_.life().deaths() > seen_deaths_ && ++seen_deaths_ < manner_.deaths)
      world_.life().doom_at(world_.life().passed());
    return world_.durable().runs.size() == 3 && world_.durable().open.empty();
  }
  // A user who gets no answer looks whether his run is there, and asks again if not.
  void submit(const std::string& name, int nodes, int devices, Program program) {
    RunSpec spec;
    spec.name = name;
    spec.nodes = nodes;
    spec.devices = devices;
    spec.checkpoint_folder = "/shared";
    program.checkpoint_every = 2;
    spec.command = command_of(program);
    ask_for(spec);
  }
  void ask_for(const RunSpec& spec) {
    if (known(spec.name) || world_.daemon().submit(spec)) return;
    world_.scene().timeline.after(seconds(1), [this, spec] { ask_for(spec); });
  }
  // Once it runs, until he is obeyed.
  void stop(const std::string& name) {
    const bool runs = known(name) && run(name).state == RunState::running;
    if (runs && world_.daemon().stop(run(name).id)) return world_.truth().touch(run(name).id);
    world_.scene().timeline.after(seconds(1), [this, name] { stop(name); });
  }

  const Manner manner_;
  World world_;
  int seen_deaths_ = 0;
};

class EachBoundary : public testing::TestWithParam<Manner> {};

TEST_P(EachBoundary, EndsTheStoryAsIfTheDaemonHadLived) {
  std::int64_t boundary = 0;
  for (bool died = true; died; ++boundary) {
    SCOPED_TRACE(boundary);
    Story story(GetParam());
    died = story.tell(boundary);
    const Verdict verdict = story.verdict();
    ASSERT_FALSE(verdict.violation) << *verdict.violation;
    EXPECT_EQ(story.durable().runs.size(), 3u);
    const lockstep::Run& gang = story.run("gang");
    EXPECT_EQ(gang.state, RunState::succeeded) << gang.reason;
    EXPECT_EQ(gang.epoch, 2);
    EXPECT_EQ(gang.losses, 1);
    EXPECT_EQ(story.durable().attempts.at({gang.id, 1}).cause, Cause::rank_lost);
    EXPECT_EQ(story.run("next").state, RunState::succeeded) << story.run("next").reason;
    EXPECT_EQ(story.run("next").epoch, 1);
    EXPECT_EQ(story.run("endless").state, RunState::cancelled) << story.run("endless").reason;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(boundary, 50) << "the story has as many boundaries, or more";
}
INSTANTIATE_TEST_SUITE_P(Manners, EachBoundary,
                         testing::Values(Manner{milliseconds(100)}, Manner{seconds(20)},
                                         Manner{seconds(1), 2}, Manner{seconds(1), 5}),
                         [](const auto& manner) {
                           return format("AwayFor{}MillisecondsDying{}Times",
                                         manner.param.absence / milliseconds(1),
                                         manner.param.deaths);
                         });

}  // namespace
}  // namespace lockstep::sim
