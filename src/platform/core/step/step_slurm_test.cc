// Runs that ask Slurm for a partition and features.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::step {
namespace {

using ::testing::HasSubstr;
using testing_world::map_of;
using testing_world::spec_of;

class StepSlurmTest : public ::testing::Test {
 protected:
  StepSlurmTest() {
    world.state.engine = "slurm";
    auto& hosts = world.state.map.pods[0].leaves[0].hosts;
    for (map::Host& host : hosts) host.labels["partition/all"] = "yes";
    hosts[1].labels["feature/ib"] = "yes";
  }
  static model::SubmitRun submission(const model::SlurmRequest& asked) {
    model::SubmitRun event{spec_of(1, 1), {}};
    event.spec.slurm = asked;
    event.request_id = "once";
    return event;
  }

  testing_world::World world{map_of(2, 4)};
};

TEST_F(StepSlurmTest, ARunGetsAHostWithTheFeaturesOfItsConstraint) {
  world.apply_event_ok(submission({.constraint = "ib", .partition = "all"}));
  EXPECT_EQ(world.state.nodes.at({{{"demo", 1}, 1}, 0}).host, "b");
}

TEST_F(StepSlurmTest, ARepeatedSubmissionIsTheSameRun) {
  world.apply_event_ok(submission({.partition = "all"}));
  world.apply_event_ok(submission({.partition = "all"}));
  EXPECT_EQ(world.state.runs.size(), 1u);
}

TEST_F(StepSlurmTest, APartitionWithoutHostsIsRefused) {
  const auto refused = world.apply_event(submission({.partition = "missing"}));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no host has partition/missing=yes"));
}

TEST_F(StepSlurmTest, AnotherEngineIgnoresTheSection) {
  world.state.engine = "local";
  world.apply_event_ok(submission({.partition = "missing"}));
  EXPECT_EQ(world.state.runs.at({"demo", 1}).spec.needs.labels, std::nullopt);
}

}  // namespace
}  // namespace lockstep::step
