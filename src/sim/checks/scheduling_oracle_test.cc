// Tests of SchedulingOracle: the starts that it accepts and the violations that it reports.
#include "sim/checks/scheduling_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Time at(int minute) { return Time(minutes(minute)); }

// Two pods: hosts a and b of two devices each; c of twenty.
map::ClusterMap small_map() {
  map::ClusterMap map;
  for (const auto& pod : {std::vector<std::pair<std::string, int>>{{"a", 2}, {"b", 2}},
                          std::vector<std::pair<std::string, int>>{{"c", 20}}}) {
    map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
    for (const auto& [name, devices] : pod) {
      map::Host& host = leaf.hosts.emplace_back();
      host.id = name;
      for (int number = 0; number < devices; ++number)
        host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
    }
  }
  return map;
}

struct RunRequest {
  int number = 1;
  int nodes = 1;
  int devices = 1;
  int came = 0;      // minute
  int timeout = 10;  // minutes
  int priority = 0;
  model::RunClass run_class = model::RunClass::normal;
  std::string project = "demo";
};

// Builds a queue of runs that wait, hold devices, or start now, at minute 60.
class QueueBuilder {
 public:
  QueueBuilder& waits(const RunRequest& asks) {
    snapshot_.before.waiting.push_back(pending(asks));
    return *this;
  }
  QueueBuilder& holds(const RunRequest& asks, const std::vector<std::string>& hosts) {
    snapshot_.before.allocations.push_back(allocation(asks, hosts, asks.came));
    return *this;
  }
  QueueBuilder& starts(const RunRequest& asks, const std::vector<std::string>& hosts) {
    snapshot_.before.waiting.push_back(pending(asks));
    snapshot_.starts.push_back(allocation(asks, hosts, 60));
    return *this;
  }
  // It drains since minute 59: to those other hosts, if there are any.
  QueueBuilder& leaves(const RunRequest& asks, const std::vector<std::string>& hosts,
                       const std::vector<std::string>& to = {}) {
    holds(asks, hosts);
    sched::Allocation& leaving = snapshot_.before.allocations.back();
    leaving.leaving = true;
    leaving.expected_end = at(59);
    leaving.move_destination = devices_on(asks, to);
    return *this;
  }
  QueueBuilder& closes(const std::string& host, model::HostState state) {
    auto& hosts = snapshot_.before.settings.hosts;
    std::erase_if(hosts, [&](const sched::HostStatus& one) { return one.host == host; });
    hosts.push_back({host, state});
    return *this;
  }
  QueueBuilder& limits_project(const std::string& project, int devices) {
    snapshot_.before.settings.limits.project_devices[project] = devices;
    return *this;
  }
  std::string wrong() const {
    return SchedulingOracle(map_).check_starts(snapshot_).value_or("nothing");
  }
  std::string idle() const {
    return SchedulingOracle(map_).check_no_run_idle(snapshot_, at(60)).value_or("nobody");
  }
  std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const model::RunId& id : SchedulingOracle(map_).order(snapshot_))
      names.push_back(text(id));
    return names;
  }
  std::string head_delay_since(const QueueBuilder& before) const {
    return SchedulingOracle(map_)
        .check_head_not_delayed(before.snapshot_, snapshot_, at(60))
        .value_or("nothing");
  }

 private:
  static sched::PendingRun pending(const RunRequest& asks) {
    return {.run = {asks.project, asks.number},
            .nodes = asks.nodes,
            .devices = asks.devices,
            .arrived = at(asks.came),
            .time_limit = minutes(asks.timeout),
            .priority = asks.priority,
            .run_class = asks.run_class};
  }
  static std::vector<model::HostDevices> devices_on(const RunRequest& asks,
                                                    const std::vector<std::string>& hosts) {
    std::vector<model::HostDevices> slices;
    for (const std::string& host : hosts)
      slices.push_back({host, std::vector<int>(static_cast<std::size_t>(asks.devices))});
    return slices;
  }
  static sched::Allocation allocation(const RunRequest& asks, const std::vector<std::string>& hosts,
                                      int began) {
    return {.run = {asks.project, asks.number},
            .devices = devices_on(asks, hosts),
            .expected_end = at(began + asks.timeout),
            .run_class = asks.run_class,
            .time_limit = minutes(asks.timeout)};
  }

  const map::ClusterMap map_ = small_map();
  QueueSnapshot snapshot_;
};

// demo/1 holds half of a until minute 70; demo/3, which needs both hosts of that pod, is the head.
QueueBuilder with_a_head() {
  QueueBuilder cast;
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
  EXPECT_THAT(with_a_head().starts({.number = 4, .came = 58, .timeout = 11}, {"b"}).wrong(),
              AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

// The head has key 255. In the other project, x/2 has key 220, and x/1, which is to be ahead of
// it, has key 458.
TEST(Turns, JudgeThoseWhoStartTogetherOneAfterAnother) {
  const RunRequest first{.number = 1, .came = 58, .timeout = 20, .priority = 1, .project = "x"};
  const RunRequest second{.number = 2, .timeout = 11, .project = "x"};
  EXPECT_EQ(with_a_head().starts(second, {"b"}).starts(first, {"c"}).wrong(), "nothing");
  QueueBuilder waits = with_a_head();
  waits.holds({.number = 5, .devices = 20, .came = 50, .timeout = 50}, {"c"});
  waits.waits(
      {.number = 1, .devices = 20, .came = 58, .timeout = 20, .priority = 1, .project = "x"});
  EXPECT_THAT(waits.starts(second, {"b"}).wrong(),
              AllOf(HasSubstr("x/2 starts before demo/3"), HasSubstr("delays")));
}

// While x/1 waits, x/3 is behind it, and y/1 is the head. Once x/1 has started, x/3 is the head,
// which y/2 delays. So y/2 started first.
TEST(Turns, FindTheOrderInWhichEachWasRight) {
  QueueBuilder cast;
  cast.holds({.number = 1, .came = 50, .timeout = 30}, {"a"});
  cast.holds({.number = 2, .came = 50, .timeout = 12}, {"c"});
  cast.waits({.number = 1, .nodes = 2, .devices = 2, .timeout = 5, .project = "y"});
  cast.waits({.number = 3, .devices = 20, .timeout = 2, .project = "x"});
  cast.starts({.number = 1, .came = 58, .timeout = 5, .priority = 1, .project = "x"}, {"c"});
  cast.starts({.number = 2, .came = 59, .timeout = 15, .project = "y"}, {"c"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, LetPreemptibleRunsPassAnyHeadAndNobodyWithThem) {
  const RunRequest preemptible{
      .number = 4, .came = 58, .timeout = 90, .run_class = model::RunClass::preemptible};
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).wrong(), "nothing");
  QueueBuilder both = with_a_head();
  both.starts(preemptible, {"c"}).starts({.number = 5, .came = 58, .timeout = 11}, {"b"});
  EXPECT_THAT(both.wrong(), AllOf(HasSubstr("demo/5 starts before demo/3"), HasSubstr("delays")));
}

TEST(Turns, FindAPreemptibleRunThatTakesWhatIsVacatedForTheHead) {
  QueueBuilder cast;
  cast.leaves({.number = 1, .devices = 2, .came = 50, .timeout = 20}, {"a"});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  cast.starts({.number = 4, .came = 58, .timeout = 90, .run_class = model::RunClass::preemptible},
              {"b"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

TEST(Turns, FindAPreemptibleRunThatDelaysAnother) {
  QueueBuilder cast;
  cast.holds({.number = 1, .came = 50, .timeout = 20}, {"a"});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .run_class = model::RunClass::preemptible});
  cast.starts({.number = 4, .came = 58, .timeout = 90, .run_class = model::RunClass::preemptible},
              {"b"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

// demo/3 may not use up the limit that demo/6 needs, until demo/6 has started.
TEST(Turns, LetAnybodyPassAPreemptibleRunThatLeavesItsLimitToAHead) {
  QueueBuilder cast;
  cast.holds({.number = 1, .came = 50, .timeout = 20}, {"a"});
  cast.holds({.number = 7, .devices = 20, .came = 50, .timeout = 200, .project = "other"}, {"c"});
  cast.waits({.number = 6, .devices = 20, .came = 52});
  cast.waits({.number = 3, .nodes = 2, .devices = 2, .run_class = model::RunClass::preemptible});
  const RunRequest preemptible{.number = 4,
                               .came = 58,
                               .timeout = 90,
                               .run_class = model::RunClass::preemptible,
                               .project = "other"};
  cast.starts(preemptible, {"b"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("other/4 starts before demo/3"), HasSubstr("delays")));
  EXPECT_EQ(cast.limits_project("demo", 22).wrong(), "nothing");
}

TEST(Turns, FindWhoStartsInstead) {
  QueueBuilder cast;
  cast.waits({.number = 1, .devices = 20}).starts({.number = 2, .came = 1}, {"a"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/2 starts before demo/1"), HasSubstr("ahead")));
}

TEST(Turns, LetAnybodyPassWhomALimitKeeps) {
  QueueBuilder cast = with_a_head();
  cast.limits_project("demo", 4);
  cast.starts({.number = 4, .came = 58, .timeout = 11, .project = "other"}, {"b"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, FindWhoTakesWhatTheHeadMayStillHold) {
  QueueBuilder cast = with_a_head();
  cast.limits_project("demo", 5);
  cast.starts({.number = 4, .devices = 2, .came = 58, .timeout = 90}, {"c"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

TEST(Turns, FindWhoPassesItsLimit) {
  QueueBuilder cast;
  cast.holds({.number = 1}, {"a"}).starts({.number = 2, .devices = 2}, {"b"});
  EXPECT_THAT(cast.limits_project("demo", 2).wrong(),
              AllOf(HasSubstr("demo/2 starts"), HasSubstr("project demo")));
  EXPECT_EQ(cast.limits_project("demo", 3).wrong(), "nothing");
}

TEST(Turns, FindWhoStartsOnAHostThatTakesNobody) {
  QueueBuilder cast;
  cast.starts({.number = 1}, {"a"});
  EXPECT_THAT(cast.closes("a", model::HostState::drained).wrong(),
              AllOf(HasSubstr("demo/1 starts on a"), HasSubstr("drained")));
  EXPECT_THAT(cast.closes("a", model::HostState::closed).wrong(),
              AllOf(HasSubstr("demo/1 starts on a"), HasSubstr("closed")));
}

TEST(Turns, FindWhoStartsOnAnAvoidedHostWithoutNeed) {
  QueueBuilder cast;
  cast.starts({.number = 1}, {"a"}).closes("a", model::HostState::avoided);
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/1 starts on a"), HasSubstr("avoided")));
  cast.closes("b", model::HostState::drained).closes("c", model::HostState::closed);
  EXPECT_EQ(cast.wrong(), "nothing");
}

TEST(Turns, FindAGangThatIsScatteredWithoutNeed) {
  QueueBuilder cast;
  cast.starts({.number = 1, .nodes = 2}, {"a", "c"});
  EXPECT_THAT(cast.wrong(), AllOf(HasSubstr("demo/1 starts"), HasSubstr("several pods")));
  EXPECT_EQ(QueueBuilder().starts({.number = 1, .nodes = 3}, {"a", "b", "c"}).wrong(), "nothing");
}

TEST(Turns, LetNobodyBlockWhomOnlyClosedHostsCouldHold) {
  QueueBuilder cast;
  cast.waits({.number = 1, .nodes = 2, .devices = 2}).closes("b", model::HostState::drained);
  cast.starts({.number = 2, .came = 5, .timeout = 500}, {"a"});
  EXPECT_EQ(cast.wrong(), "nothing");
}

// Debug runs may hold two of the 24 devices.
TEST(Turns, LetDebugRunsPassAsFarAsTheLaneGoes) {
  const RunRequest debug{
      .number = 4, .devices = 2, .came = 58, .timeout = 50, .run_class = model::RunClass::debug};
  EXPECT_EQ(with_a_head().starts(debug, {"b"}).wrong(), "nothing");
  QueueBuilder beyond = with_a_head();
  beyond.holds({.number = 5, .came = 50, .timeout = 50, .run_class = model::RunClass::debug},
               {"c"});
  EXPECT_THAT(beyond.starts(debug, {"b"}).wrong(),
              AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

// The job fills the debug share, too, in whatever order the two are stored.
TEST(Turns, ADebugRunMayBecomeAJobAfterOneOfTheDebugShareHasStarted) {
  const RunRequest debug{
      .number = 4, .devices = 2, .came = 58, .timeout = 50, .run_class = model::RunClass::debug};
  const RunRequest job{
      .number = 2, .devices = 2, .came = 50, .timeout = 5, .run_class = model::RunClass::debug};
  EXPECT_EQ(with_a_head().starts(job, {""}).starts(debug, {"b"}).wrong(), "nothing");
}

TEST(Turns, AJobLeavesTheHeadTheDevicesThatItMayHold) {
  for (const int timeout : {10, 90}) {
    QueueBuilder queue = with_a_head();
    queue.limits_project("demo", 5);
    queue.starts({.number = 4, .devices = 2, .came = 58, .timeout = timeout}, {""});
    EXPECT_EQ(queue.wrong(), "demo/4 becomes a job before demo/3, whose limit it uses up");
    EXPECT_EQ(queue.limits_project("demo", 7).wrong(), "nothing");
  }
}

TEST(Turns, OrderByAgeAndTimeOutAndWithinAProjectByPriority) {
  QueueBuilder cast;
  cast.waits({.number = 1, .came = 0, .timeout = 10})                  // key 200
      .waits({.number = 2, .came = 150, .timeout = 2})                 // key 190
      .waits({.number = 3, .came = 0, .timeout = 30, .priority = 1})   // key 600
      .waits({.number = 1, .came = 0, .timeout = 20, .project = "x"})  // key 400
      .waits({.number = 2,
              .came = 59,
              .timeout = 59,
              .run_class = model::RunClass::debug,
              .project = "x"});
  EXPECT_THAT(cast.order(), ElementsAre("x/2", "x/1", "demo/3", "demo/2", "demo/1"));
}

TEST(Turns, FindAHeadThatIsPutOff) {
  QueueBuilder later;
  later.holds({.number = 1, .came = 60, .timeout = 20}, {"a"});
  later.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  EXPECT_THAT(later.head_delay_since(with_a_head()), HasSubstr("demo/3 was to start at"));
  EXPECT_EQ(with_a_head().head_delay_since(with_a_head()), "nothing");
}

TEST(Turns, FindAHeadThatIsPutOffThoughSomebodyAheadOfItStartsToo) {
  QueueBuilder later;
  later.holds({.number = 1, .came = 60, .timeout = 20}, {"a"});
  later.waits({.number = 3, .nodes = 2, .devices = 2, .came = 55});
  later.starts({.number = 4, .came = 0, .timeout = 11}, {"c"});
  EXPECT_THAT(later.head_delay_since(with_a_head()), HasSubstr("demo/3 was to start at"));
}

TEST(Turns, PutOffAHeadForWhoIsMovedOffADrainedHostAndForNoOtherMove) {
  const RunRequest moved{.number = 5, .came = 50, .timeout = 90};
  QueueBuilder before = with_a_head();
  before.holds(moved, {"c"});
  QueueBuilder after = with_a_head();
  after.leaves(moved, {"c"}, {"b"});
  EXPECT_THAT(after.head_delay_since(before), HasSubstr("demo/3 was to start at"));
  before.closes("c", model::HostState::drained);
  after.closes("c", model::HostState::drained);
  EXPECT_EQ(after.head_delay_since(before), "nothing");
}

TEST(Turns, PutOffAHeadForWhoStandsAheadOfItAndWhereAHostIsClosed) {
  QueueBuilder sooner = with_a_head();
  sooner.starts({.number = 4, .devices = 1, .came = 0, .timeout = 11}, {"b"});
  EXPECT_EQ(sooner.head_delay_since(with_a_head()), "nothing");
}

// It ends at minute 560 by its time-out, but demo/3 has it evicted at minute 70.
TEST(Turns, LetPreemptibleRunsPassAndNobodyByThat) {
  const RunRequest preemptible{
      .number = 5, .came = 59, .timeout = 500, .run_class = model::RunClass::preemptible};
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).wrong(), "nothing");
  EXPECT_EQ(with_a_head().starts(preemptible, {"b"}).head_delay_since(with_a_head()), "nothing");
  QueueBuilder both = with_a_head();
  both.starts(preemptible, {"b"}).starts({.number = 4, .came = 58, .timeout = 11}, {"b"});
  EXPECT_THAT(both.wrong(), AllOf(HasSubstr("demo/4 starts before demo/3"), HasSubstr("delays")));
}

TEST(Turns, FindWhoWaitsThoughHeDelaysNobody) {
  QueueBuilder cast = with_a_head();
  cast.waits({.number = 4, .devices = 2, .came = 58, .timeout = 10});
  EXPECT_THAT(cast.idle(), HasSubstr("demo/4 waits, though it fits and ends before "));
  QueueBuilder alone;
  EXPECT_THAT(alone.waits({.number = 1}).idle(), AllOf(HasSubstr("demo/1"), HasSubstr("fits")));
  EXPECT_EQ(with_a_head().idle(), "nobody");
}

TEST(Turns, FindAPreemptibleRunThatWaitsThoughItFitsUnlessSomebodyLeavesForAnother) {
  const RunRequest preemptible{
      .number = 4, .came = 58, .timeout = 90, .run_class = model::RunClass::preemptible};
  EXPECT_THAT(with_a_head().waits(preemptible).idle(),
              AllOf(HasSubstr("demo/4"), HasSubstr("fits")));
  QueueBuilder leaving = with_a_head();
  leaving.leaves({.number = 5, .came = 50, .timeout = 50}, {"c"});
  EXPECT_EQ(leaving.waits(preemptible).idle(), "nobody");
}

// demo/5 is in the debug share, ahead of demo/3.
TEST(Turns, FindWhoWaitsThoughHeDelaysNeitherTheLaneNorTheHead) {
  QueueBuilder cast = with_a_head();
  cast.holds({.number = 2, .came = 50, .timeout = 30}, {"b"});
  cast.holds({.number = 6, .devices = 19, .came = 50, .timeout = 40}, {"c"});
  cast.waits(
      {.number = 5, .devices = 2, .came = 59, .timeout = 50, .run_class = model::RunClass::debug});
  EXPECT_EQ(cast.idle(), "nobody");
  cast.waits({.number = 4, .came = 58, .timeout = 11});
  EXPECT_EQ(cast.idle(), "nobody");
  cast.waits({.number = 7, .came = 58, .timeout = 10});
  EXPECT_THAT(cast.idle(), HasSubstr("demo/7 waits, though it fits and ends before "));
}

}  // namespace
}  // namespace lockstep::sim
