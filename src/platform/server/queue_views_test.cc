#include "platform/server/queue_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/step/step_world_for_test.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(QueueViews, ARunWithoutHostsWaitsUntilItsEngineHasChosenThem) {
  step::testing_world::World world(step::testing_world::map_of(3, 2));
  world.state.engine = "slurm";
  world.state.placing_engine = "slurm";
  const model::RunId run = world.submit(step::testing_world::spec_of(2, 1));
  const auto see = [&](int index, const model::Observation& seen) {
    world.apply_event_ok(model::NodeSeen{world.node(run, index), seen});
  };
  const step::IncrementalScheduler nothing;
  const auto view = [&] { return queue_view(world.state, nothing, 10, world.now); };
  for (int index : {0, 1}) see(index, {.phase = model::NodePhase::pending, .reason = "Resources"});
  ASSERT_EQ(view().waiting.size(), 1u);
  EXPECT_THAT(view().waiting[0].reason, HasSubstr("waits in the queue of slurm: Resources"));
  EXPECT_THAT(view().allocations, IsEmpty());
  see(0, {.host = "c"});
  see(1, {.host = "a"});
  EXPECT_THAT(view().waiting, IsEmpty());
  ASSERT_EQ(view().allocations.size(), 1u);
  EXPECT_THAT(view().allocations[0].hosts, ElementsAre("c", "a"));
  const auto hosts = host_list(world.state).hosts;
  EXPECT_EQ(hosts[0].free, 1);
  EXPECT_THAT(hosts[0].runs, ElementsAre("demo/1"));
  EXPECT_EQ(hosts[1].free, 2);
}

}  // namespace
}  // namespace lockstep::server
