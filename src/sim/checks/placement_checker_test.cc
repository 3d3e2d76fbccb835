// The rules for runs whose hosts the engine chooses: each finds rows, or jobs, that break it.
#include "sim/checks/placement_checker.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sim_scenario_for_test.h"

namespace lockstep::sim {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Two hosts of two devices each.
class PlacementRules : public testing::Test {
 protected:
  PlacementRules() {
    rows_.map = two_hosts();
    rows_.engine = rows_.placing_engine = "shared";
    checker_.set_cluster(world_.cluster(), "shared");
  }

  static model::Run waiting_run(std::int64_t number, int nodes, int devices) {
    model::Run run;
    run.id = {"demo", number};
    run.spec.nodes = nodes;
    run.spec.devices = devices;
    run.queued = Time(seconds(number));
    run.reason = "waits";
    return run;
  }
  // The first attempt of the run, which it starts.
  static model::Attempt attempt_of(model::Run& run) {
    run.epoch = 1;
    run.state = model::RunState::starting;
    model::Attempt attempt;
    attempt.id = {run.id, 1};
    attempt.is_placed = false;
    return attempt;
  }
  static model::Node node_of(const model::Attempt& attempt, const std::string& host = "") {
    model::Node node;
    node.id = {attempt.id, 0};
    node.host = host;
    node.devices = {0};
    return node;
  }
  void add(const std::vector<model::Change>& changes) {
    for (const model::Change& change : changes) model::apply(rows_, change);
  }
  static std::shared_ptr<const engine::Gang> gang_of(const model::Attempt& attempt,
                                                     std::vector<std::string> excluded = {}) {
    engine::Gang gang;
    gang.attempt = name_of(attempt);
    engine::NodePlacement& node = gang.nodes.emplace_back();
    node.devices = {0};
    gang.excluded_hosts = std::move(excluded);
    return std::make_shared<const engine::Gang>(std::move(gang));
  }
  // Nothing hinders the daemon for so long.
  void pass(int count) {
    Timeline& timeline = world_.context().timeline;
    for (int i = 0; i < count; ++i) {
      timeline.after(seconds(1), [] {});
      timeline.step(timeline.now() + seconds(1));
      checker_.check_quiet(true);
    }
  }
  std::string violation() const { return world_.context().violation().value_or("none"); }

  mutable Simulation world_{{.map = two_hosts(), .chosen_by = ChosenBy::engine}};
  model::State rows_;
  PlacementChecker checker_{world_.context(), rows_};
};

TEST_F(PlacementRules, FindARunThatWaitsThoughItCouldBeAJob) {
  model::Run large = waiting_run(1, 2, 2);
  const model::Attempt attempt = attempt_of(large);
  add({large, attempt, node_of(attempt)});
  checker_.check_queue(rows_);
  EXPECT_EQ(violation(), "none");
  add({waiting_run(2, 1, 2)});
  checker_.check_queue(rows_);
  EXPECT_THAT(violation(), HasSubstr("demo/2 waits, and the cluster could have it as a job"));
}

TEST_F(PlacementRules, LetRunsWaitForTheMostJobsALimitAndClosedHosts) {
  model::Run first = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(first);
  add({first, attempt, node_of(attempt), waiting_run(2, 1, 2)});
  rows_.settings.slurm_jobs_max = 1;
  checker_.check_queue(rows_);
  rows_.settings.slurm_jobs_max = 2;
  rows_.limits[{model::LimitScope::project, "demo"}] = {.id = {model::LimitScope::project, "demo"},
                                                        .devices = 2};
  checker_.check_queue(rows_);
  rows_.limits.clear();
  for (const char* host : {"a", "b"}) {
    model::HostRow row;
    row.id = host;
    row.state = model::HostState::closed;
    rows_.hosts[host] = row;
  }
  checker_.check_queue(rows_);
  EXPECT_EQ(violation(), "none");
}

TEST_F(PlacementRules, FindAnAttemptThatIsPlaced) {
  model::Run run = waiting_run(1, 1, 1);
  add({run});
  model::Attempt attempt = attempt_of(run);
  attempt.is_placed = true;
  const std::vector<model::Change> changes = {run, attempt, node_of(attempt, "a")};
  checker_.check(commit_of(changes));
  EXPECT_THAT(violation(), HasSubstr("demo/1.1/0 is placed on a, and its engine chooses"));
}

TEST_F(PlacementRules, FindANodeThatBeginsOnAHost) {
  model::Run run = waiting_run(1, 1, 1);
  add({run});
  const model::Attempt attempt = attempt_of(run);
  const std::vector<model::Change> changes = {run, attempt, node_of(attempt, "a")};
  checker_.check(commit_of(changes));
  EXPECT_THAT(violation(), HasSubstr("begins on a, and its engine has not named it"));
}

TEST_F(PlacementRules, FindMoreJobsThanThereMayBe) {
  rows_.settings.slurm_jobs_max = 0;
  model::Run run = waiting_run(1, 1, 1);
  add({run});
  const model::Attempt attempt = attempt_of(run);
  const std::vector<model::Change> changes = {run, attempt, node_of(attempt)};
  checker_.check(commit_of(changes));
  EXPECT_THAT(violation(), HasSubstr("1 runs are jobs of the cluster, and 0 may be"));
}

TEST_F(PlacementRules, FindARunThatPassesAnother) {
  model::Run later = waiting_run(2, 1, 1);
  add({waiting_run(1, 1, 1), later});
  const model::Attempt attempt = attempt_of(later);
  const std::vector<model::Change> changes = {later, attempt, node_of(attempt)};
  checker_.check(commit_of(changes));
  EXPECT_THAT(violation(), HasSubstr("demo/2 starts before demo/1, which stands ahead of it"));
}

TEST_F(PlacementRules, FindARunThatIsPreempted) {
  model::Run run = waiting_run(1, 1, 1);
  model::Attempt attempt = attempt_of(run);
  add({run, attempt, node_of(attempt)});
  attempt.state = model::AttemptState::draining;
  attempt.cause = model::Cause::evicted;
  attempt.draining = Time(seconds(9));
  const std::vector<model::Change> changes = {attempt};
  checker_.check(commit_of(changes));
  EXPECT_THAT(violation(), HasSubstr("demo/1.1 is evicted, and its engine chooses hosts"));
}

TEST_F(PlacementRules, FindAJobThatMayRunOnAHostThatLostTheRun) {
  model::Run run = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(run);
  model::HostRow host;
  host.id = "a";
  host.losses = {{"demo/1", Time(seconds(1))}};
  add({run, attempt, node_of(attempt), host});
  checker_.check_exclusions(*gang_of(attempt, {"a"}));
  EXPECT_EQ(violation(), "none");
  checker_.check_exclusions(*gang_of(attempt));
  EXPECT_THAT(violation(), HasSubstr("may be placed on a, which lost a run"));
}

TEST_F(PlacementRules, FindAJobThatExcludesAHostWithoutAReason) {
  model::Run run = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(run);
  add({run, attempt, node_of(attempt)});
  checker_.check_exclusions(*gang_of(attempt, {"b"}));
  EXPECT_THAT(violation(), HasSubstr("excludes b, which is open"));
}

TEST_F(PlacementRules, FindASecondJobOfAnAttempt) {
  model::Run run = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(run);
  add({run, attempt, node_of(attempt)});
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  rows_.runs.at(run.id).reason = "waits in the queue of shared: the cluster has queued job 1";
  pass(11);
  EXPECT_EQ(violation(), "none");
  pass(4);
  EXPECT_THAT(violation(), HasSubstr("job 2 is the second one of demo/1.1"));
}

TEST_F(PlacementRules, FindAReasonThatIsNotTheClusters) {
  model::Run run = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(run);
  add({run, attempt, node_of(attempt)});
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  pass(15);
  EXPECT_THAT(violation(),
              HasSubstr("demo/1 is shown as \"waits\", and its job waits in the queue"));
}

TEST_F(PlacementRules, FindAnAttemptThatIsNoJob) {
  model::Run run = waiting_run(1, 1, 1);
  model::Attempt attempt = attempt_of(run);
  attempt.created = world_.context().clock.now();
  add({run, attempt, node_of(attempt)});
  pass(40);
  EXPECT_THAT(violation(), HasSubstr("demo/1.1 is no job of the cluster"));
}

TEST_F(PlacementRules, FindAJobOfAnAttemptThatHasEnded) {
  model::Run run = waiting_run(1, 1, 1);
  model::Attempt attempt = attempt_of(run);
  attempt.state = model::AttemptState::ended;
  attempt.ended = world_.context().clock.now();
  run.state = model::RunState::cancelled;
  add({run, attempt, node_of(attempt)});
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  pass(25);
  EXPECT_THAT(violation(), HasSubstr("which has ended, and nothing cancels it"));
}

TEST_F(PlacementRules, FindAJobOfAnOrphanThatIsToStop) {
  model::Run run = waiting_run(1, 1, 1);
  model::Attempt attempt = attempt_of(run);
  attempt.generation = "another";
  model::Orphan orphan;
  orphan.id = {"another", {attempt.id, 0}};
  orphan.stop_requested_at = world_.context().clock.now();
  add({orphan});
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  pass(45);
  EXPECT_THAT(violation(), HasSubstr("is of an orphan that is to stop"));
}

TEST_F(PlacementRules, AreQuietWhileAFaultHindersTheDaemon) {
  model::Run run = waiting_run(1, 1, 1);
  const model::Attempt attempt = attempt_of(run);
  add({run, attempt, node_of(attempt)});
  ASSERT_TRUE(world_.cluster().submit(gang_of(attempt)));
  for (int i = 0; i < 5; ++i) {
    pass(8);
    checker_.check_quiet(false);
  }
  EXPECT_EQ(violation(), "none");
}

}  // namespace
}  // namespace lockstep::sim
