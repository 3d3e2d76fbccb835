// The judge of turns by itself: what it accepts of who starts, and what it finds wrong.
#include "sim/turns.h"

#include <list>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Time at(int minute) { return Time(minutes(minute)); }

// Two pods: hosts a and b of two devices each; c of twenty.
Map small_map() {
  Map map;
  for (const auto& pod : {std::vector<std::pair<std::string, int>>{{"a", 2}, {"b", 2}},
                          std::vector<std::pair<std::string, int>>{{"c", 20}}}) {
    Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    for (const auto& [name, devices] : pod) {
      Host& host = leaf.hosts.emplace_back();
      host.id = name;
      for (int number = 0; number < devices; ++number)
        host.islands.emplace_back().devices.push_back({DeviceKind::gpu, number, {}, false});
    }
  }
  return map;
}

struct Asks {
  int number = 1;
  int nodes = 1;
  int devices = 1;
  int came = 0;      // minute
  int timeout = 10;  // minutes
  int priority = 0;
  RunClass run_class = RunClass::normal;
  std::string project = "demo";
};

// Rows of runs that wait, hold devices, or start now, at minute 60.
class Cast {
 public:
  Cast& waits(const Asks& asks) {
    add(asks, RunState::queued);
    return *this;
  }
  Cast& holds(const Asks& asks, const std::vector<std::string>& hosts) {
    give(add(asks, RunState::running), hosts, asks.came, false);
    return *this;
  }
  Cast& starts(const Asks& asks, const std::vector<std::string>& hosts) {
    give(add(asks, RunState::starting), hosts, 60, true);
    return *this;
  }
  // It is to go, since minute 59: to those other hosts, if there are any.
  Cast& leaves(const Asks& asks, const std::vector<std::string>& hosts,
               const std::vector<std::string>& to = {}) {
    Claim& claim = add(asks, RunState::running);
    give(claim, hosts, asks.came, false);
    Attempt& attempt = attempts_.back();
    attempt.draining = at(59);
    attempt.cause = to.empty() ? Cause::evicted : Cause::moved;
    for (const std::string& host : to)
      attempt.moves_to.push_back({host, std::vector<int>(static_cast<std::size_t>(asks.devices))});
    return *this;
  }
  Cast& closes(const std::string& host, HostState state) {
    standing_.hosts[host] = state;
    return *this;
  }
  Cast& limits(const LimitId& id, int devices) {
    standing_.limits[id] = devices;
    return *this;
  }
  const Standing& standing() const { return standing_; }
  std::string wrong() const { return Turns(map_).wrong_start(standing_).value_or("nothing"); }
  std::string idle() const { return Turns(map_).idle(standing_, at(60)).value_or("nobody"); }
  std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const RunId& id : Turns(map_).order(standing_)) names.push_back(text(id));
    return names;
  }
  std::string put_off_since(const Cast& before) const {
    return Turns(map_).put_off(before.standing_, standing_, at(60)).value_or("nothing");
  }

 private:
  Claim& add(const Asks& asks, RunState state) {
    Run& run = runs_.emplace_back();
    run.id = {asks.project, asks.number};
    run.spec.project = asks.project;
    run.spec.nodes = asks.nodes;
    run.spec.devices = asks.devices;
    run.spec.timeout = minutes(asks.timeout);
    run.spec.run_class = asks.run_class;
    run.priority = asks.priority;
    run.queued = at(asks.came);
    run.state = state;
    run.epoch = 1;
    return standing_.claims.emplace_back(Claim{.run = &run});
  }
  void give(Claim& claim, const std::vector<std::string>& hosts, int minute, bool now) {
    Attempt& attempt = attempts_.emplace_back();
    attempt.id = {claim.run->id, 1};
    attempt.created = at(minute);
    claim.attempt = &attempt;
    claim.starts = now;
    for (const std::string& host : hosts) {
      Node& node = nodes_.emplace_back();
      node.host = host;
      node.devices.resize(static_cast<std::size_t>(claim.run->spec.devices));
      claim.nodes.push_back(&node);
    }
  }

  const Map map_ = small_map();
  std::list<Run> runs_;  // lists: claims point to their items
  std::list<Attempt> attempts_;
  std::list<Node> nodes_;
  Standing standing_;
};

// demo/1 holds half of a until minute 70; demo/3, which wants both hosts of that pod, is the head.
Cast with_a_head() {
  Cast cast;
  cast.holds({.number = 1, .came = 50, .timeout = 20}, {"a"});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  return cast;
}

TEST(Turns, LetPassWhoEndsWhenTheHeadCanStart) {
  EXPECT_EQ(with_a_head().starts({.number = 4, .came = 58, .timeout = 10}, {"b"}).wrong(),
            "nothing");
}

TEST(Turns, LetPassWhoLeavesTheHeadItsPlace) {
  EXPECT_EQ(with_a_head().starts({.number = 4, .came = 58, .timeout = 90}, {"c"}).wrong(),
            "nothing");
}

TEST(Turns, FindWhoDelaysTheHead) {
  EXPECT_EQ(with_a_head().starts({.number = 4, .came = 58, .timeout = 11}, {"b"}).wrong(),
            "demo/4 starts before demo/3, which it delays");
}

// The head's key is 255. Of another project, x/2 has 220, and x/1, which is to stand before it,
// 458.
TEST(Turns, JudgeThoseWhoStartTogetherOneAfterAnother) {
  const Asks first{.number = 1, .came = 58, .timeout = 20, .priority = 1, .project = "x"};
  const Asks second{.number = 2, .timeout = 11, .project = "x"};
  EXPECT_EQ(with_a_head().starts(second, {"b"}).starts(first, {"c"}).wrong(), "nothing");
  Cast waits = with_a_head();
  waits.holds({.number = 5, .devices = 20, .came = 50, .timeout = 50}, {"c"});
  waits.waits(
      {.number = 1, .devices = 20, .came = 58, .timeout = 20, .priority = 1, .project = "x"});
  EXPECT_EQ(waits.starts(second, {"b"}).wrong(), "x/2 starts before demo/3, which it delays");
}

// While x/1 waits x/3 stands behind it, and y/1 is the head; once x/1 has started x/3 is, which y/2
// delays. So y/2 came first.
TEST(Turns, FindTheOrderInWhichEachWasRight) {
  Cast cast;
  cast.holds({.number = 1, .came = 50, .timeout = 30}, {"a"});
  cast.holds({.number = 2, .came = 50, .timeout = 12}, {"c"});
  cast.waits({.number = 1, .nodes = 2, .devices = 2, .timeout = 5, .project = "y"});
  cast.waits({.number = 3, .devices = 20, .timeout = 2, .project = "x"});
  cast.starts({.number = 1, .came = 58, .timeout = 5, .priority = 1, .project = "x"}, {"c"});
  cast.starts({.number = 2, .came = 59, .timeout = 15, .project = "y"}, {"c"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, LetPreemptibleRunsPassAnyHeadAndNobodyWithThem) {
  const Asks preemptible{
      .number = 4, .came = 58, .timeout = 90, .run_class = RunClass::preemptible};
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).wrong(), "nothing");
  Cast both = with_a_head();
  both.starts(preemptible, {"c"}).starts({.number = 5, .came = 58, .timeout = 11}, {"b"});
  EXPECT_EQ(both.wrong(), "demo/5 starts before demo/3, which it delays");
}

TEST(Turns, FindAPreemptibleRunThatTakesWhatIsVacatedForTheHead) {
  Cast cast;
  cast.leaves({.number = 1, .devices = 2, .came = 50, .timeout = 20}, {"a"});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  cast.starts({.number = 4, .came = 58, .timeout = 90, .run_class = RunClass::preemptible}, {"b"});
  EXPECT_EQ(cast.wrong(), "demo/4 starts before demo/3, which it delays");
}

TEST(Turns, FindAPreemptibleRunThatDelaysAnother) {
  Cast cast;
  cast.holds({.number = 1, .came = 50, .timeout = 20}, {"a"});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .run_class = RunClass::preemptible});
  cast.starts({.number = 4, .came = 58, .timeout = 90, .run_class = RunClass::preemptible}, {"b"});
  EXPECT_EQ(cast.wrong(), "demo/4 starts before demo/3, which it delays");
}

// demo/3 may not hold what demo/6 would then not be allowed, until demo/6 has started.
TEST(Turns, LetAnybodyPassAPreemptibleRunThatLeavesItsLimitToAHead) {
  Cast cast;
  cast.holds({.number = 1, .came = 50, .timeout = 20}, {"a"});
  cast.holds({.number = 7, .devices = 20, .came = 50, .timeout = 200, .project = "other"}, {"c"});
  cast.waits({.number = 6, .devices = 20, .came = 52});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .run_class = RunClass::preemptible});
  const Asks preemptible{.number = 4,
                         .came = 58,
                         .timeout = 90,
                         .run_class = RunClass::preemptible,
                         .project = "other"};
  cast.starts(preemptible, {"b"});
  EXPECT_EQ(cast.wrong(), "other/4 starts before demo/3, which it delays");
  EXPECT_EQ(cast.limits({LimitScope::project, "demo"}, 22).wrong(), "nothing");
}

TEST(Turns, FindWhoStartsInstead) {
  Cast cast;
  cast.waits({.number = 1, .devices = 20}).starts({.number = 2, .came = 1}, {"a"});
  EXPECT_EQ(cast.wrong(), "demo/2 starts before demo/1, which stands ahead of it and would fit");
}

TEST(Turns, LetAnybodyPassWhomALimitKeeps) {
  Cast cast = with_a_head();
  cast.limits({LimitScope::project, "demo"}, 4);
  cast.starts({.number = 4, .came = 58, .timeout = 11, .project = "other"}, {"b"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, FindWhoTakesWhatTheHeadMayStillHold) {
  Cast cast = with_a_head();
  cast.limits({LimitScope::project, "demo"}, 5);
  cast.starts({.number = 4, .devices = 2, .came = 58, .timeout = 90}, {"c"});
  EXPECT_EQ(cast.wrong(), "demo/4 starts before demo/3, which it delays");
}

TEST(Turns, FindWhoPassesItsLimit) {
  Cast cast;
  cast.holds({.number = 1}, {"a"}).starts({.number = 2, .devices = 2}, {"b"});
  EXPECT_EQ(cast.limits({LimitScope::project, "demo"}, 2).wrong(),
            "demo/2 starts, and the project demo holds more than it may");
  EXPECT_EQ(cast.limits({LimitScope::project, "demo"}, 3).wrong(), "nothing");
}

TEST(Turns, FindWhoStartsOnAHostThatTakesNobody) {
  Cast cast;
  cast.starts({.number = 1}, {"a"});
  EXPECT_EQ(cast.closes("a", HostState::drained).wrong(), "demo/1 starts on a, which is drained");
  EXPECT_EQ(cast.closes("a", HostState::closed).wrong(), "demo/1 starts on a, which is closed");
}

TEST(Turns, FindWhoStartsOnAnAvoidedHostWithoutNeed) {
  Cast cast;
  cast.starts({.number = 1}, {"a"}).closes("a", HostState::avoided);
  EXPECT_EQ(cast.wrong(), "demo/1 starts on a, which is avoided, though others have room");
  cast.closes("b", HostState::drained).closes("c", HostState::closed);
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, FindAGangThatIsScatteredWithoutNeed) {
  Cast cast;
  cast.starts({.number = 1, .nodes = 2}, {"a", "c"});
  EXPECT_EQ(cast.wrong(), "demo/1 starts over several pods, and one of them is large enough");
  EXPECT_EQ(Cast().starts({.number = 1, .nodes = 3}, {"a", "b", "c"}).wrong(), "nothing");
}

TEST(Turns, LetNobodyBlockWhomOnlyClosedHostsCouldHold) {
  Cast cast;
  cast.waits({.number = 1, .nodes = 2, .devices = 2}).closes("b", HostState::drained);
  cast.starts({.number = 2, .came = 5, .timeout = 500}, {"a"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

// Of 24 devices debug runs may hold two.
TEST(Turns, LetDebugRunsPassAsFarAsTheLaneGoes) {
  const Asks debug{
      .number = 4, .devices = 2, .came = 58, .timeout = 50, .run_class = RunClass::debug};
  EXPECT_EQ(with_a_head().starts(debug, {"b"}).wrong(), "nothing");
  Cast beyond = with_a_head();
  beyond.holds({.number = 5, .came = 50, .timeout = 50, .run_class = RunClass::debug}, {"c"});
  EXPECT_EQ(beyond.starts(debug, {"b"}).wrong(), "demo/4 starts before demo/3, which it delays");
}

TEST(Turns, OrderByAgeAndTimeOutAndWithinAProjectByPriority) {
  Cast cast;
  cast.waits({.number = 1, .came = 0, .timeout = 10})                  // key 200
      .waits({.number = 2, .came = 150, .timeout = 2})                 // key 190
      .waits({.number = 3, .came = 0, .timeout = 30, .priority = 1})   // key 600
      .waits({.number = 1, .came = 0, .timeout = 20, .project = "x"})  // key 400
      .waits(
          {.number = 2, .came = 59, .timeout = 59, .run_class = RunClass::debug, .project = "x"});
  EXPECT_THAT(cast.order(), ElementsAre("x/2", "x/1", "demo/3", "demo/2", "demo/1"));
}

TEST(Turns, FindAHeadThatIsPutOff) {
  Cast later;
  later.holds({.number = 1, .came = 50, .timeout = 30}, {"a"});
  later.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  EXPECT_THAT(later.put_off_since(with_a_head()), HasSubstr("demo/3 was to start at"));
  EXPECT_EQ(with_a_head().put_off_since(with_a_head()), "nothing");
}

TEST(Turns, FindAHeadThatIsPutOffThoughSomebodyAheadOfItStartsToo) {
  Cast later;
  later.holds({.number = 1, .came = 50, .timeout = 30}, {"a"});
  later.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  later.starts({.number = 4, .came = 0, .timeout = 11}, {"c"});
  EXPECT_THAT(later.put_off_since(with_a_head()), HasSubstr("demo/3 was to start at"));
}

TEST(Turns, PutOffAHeadForWhoIsMovedOffADrainedHostAndForNoOtherMove) {
  const Asks moved{.number = 5, .came = 50, .timeout = 90};
  Cast before = with_a_head();
  before.holds(moved, {"c"});
  Cast after = with_a_head();
  after.leaves(moved, {"c"}, {"b"});
  EXPECT_THAT(after.put_off_since(before), HasSubstr("demo/3 was to start at"));
  before.closes("c", HostState::drained);
  after.closes("c", HostState::drained);
  EXPECT_EQ(after.put_off_since(before), "nothing");
}

TEST(Turns, PutOffAHeadForWhoStandsAheadOfItAndWhereAHostIsClosed) {
  Cast sooner = with_a_head();
  sooner.starts({.number = 4, .devices = 1, .came = 0, .timeout = 11}, {"b"});
  EXPECT_EQ(sooner.put_off_since(with_a_head()), "nothing");
}

// Until minute 560 by its time-out, but demo/3 has it evicted at minute 70.
TEST(Turns, LetPreemptibleRunsPassAndNobodyByThat) {
  const Asks preemptible{
      .number = 5, .came = 59, .timeout = 500, .run_class = RunClass::preemptible};
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).wrong(), "nothing");
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).put_off_since(with_a_head()), "nothing");
  Cast both = with_a_head();
  both.starts(preemptible, {"b"}).starts({.number = 4, .came = 58, .timeout = 11}, {"b"});
  EXPECT_EQ(both.wrong(), "demo/4 starts before demo/3, which it delays");
}

TEST(Turns, FindWhoWaitsThoughHeDelaysNobody) {
  Cast cast = with_a_head();
  cast.waits({.number = 4, .devices = 2, .came = 58, .timeout = 10});
  EXPECT_THAT(cast.idle(), HasSubstr("demo/4 waits, though it fits and ends before "));
  Cast alone;
  EXPECT_EQ(alone.waits({.number = 1}).idle(), "demo/1 is the first that waits, and fits");
  EXPECT_EQ(with_a_head().idle(), "nobody");
}

TEST(Turns, FindAPreemptibleRunThatWaitsThoughItFitsUnlessSomebodyLeavesForAnother) {
  const Asks preemptible{
      .number = 4, .came = 58, .timeout = 90, .run_class = RunClass::preemptible};
  EXPECT_EQ(with_a_head().waits(preemptible).idle(), "demo/4 is the first that waits, and fits");
  Cast leaving = with_a_head();
  leaving.leaves({.number = 5, .came = 50, .timeout = 50}, {"c"});
  EXPECT_EQ(leaving.waits(preemptible).idle(), "nobody");
}

// demo/5 stands in the lane, ahead of demo/3.
TEST(Turns, FindWhoWaitsThoughHeDelaysNeitherTheLaneNorTheHead) {
  Cast cast = with_a_head();
  cast.holds({.number = 2, .came = 50, .timeout = 30}, {"b"});
  cast.holds({.number = 6, .devices = 19, .came = 50, .timeout = 40}, {"c"});
  cast.waits({.number = 5, .devices = 2, .came = 59, .timeout = 50, .run_class = RunClass::debug});
  EXPECT_EQ(cast.idle(), "nobody");
  cast.waits({.number = 4, .came = 58, .timeout = 11});
  EXPECT_EQ(cast.idle(), "nobody");
  cast.waits({.number = 7, .came = 58, .timeout = 10});
  EXPECT_THAT(cast.idle(), HasSubstr("demo/7 waits, though it fits and ends before "));
}

}  // namespace
}  // namespace lockstep::sim
