#include "platform/controller/listed_orphans.h"

#include <gtest/gtest.h>

#include "platform/controller/gang_of.h"

namespace lockstep::controller {
namespace {

const model::NodeName kJob{"2222222222222222", {{{"demo", 1}, 1}, 0}};

// This machine has host a, and Slurm has b.
model::State state_of_two_engines() {
  model::State state;
  state.engine = "local,slurm";
  state.placing_engine = "slurm";
  for (const char* name : {"a", "b"}) {
    map::Pod& pod = state.map.pods.emplace_back();
    pod.engine = name == std::string("a") ? "local" : "slurm";
    map::Host& host = pod.leaves.emplace_back().hosts.emplace_back();
    host.id = name;
    host.islands.emplace_back().devices.resize(2);
  }
  return state;
}

// The state knows the job, whose host Slurm has not named, as an orphan.
model::State state_with_orphan() {
  model::State state = state_of_two_engines();
  const engine::EngineList listed{.nodes = {{.node = kJob, .engine = "slurm"}}};
  const auto seen = listed_orphans(state, listed, Time{});
  for (const model::Orphan& orphan : seen.value().orphans) model::apply(state, orphan);
  return state;
}

TEST(ListedOrphans, AnOrphanHasTheEngineThatListsIt) {
  const model::State state = state_with_orphan();
  EXPECT_EQ(state.orphans.at(kJob).engine, "slurm");
}

TEST(ListedOrphans, OneWithoutAHostIsGoneThoughAHostOfAnotherEngineIsSilent) {
  const model::State state = state_with_orphan();
  const auto seen = listed_orphans(state, {.nodes = {}, .unavailable = {{"a", "silent"}}}, Time{});
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->orphans.empty());
}

TEST(ListedOrphans, OneWithoutAHostStaysWhileItsEngineCannotTell) {
  const model::State state = state_with_orphan();
  EXPECT_FALSE(listed_orphans(state, {.nodes = {}, .unavailable = {{"b", "silent"}}}, Time{}));
  EXPECT_FALSE(listed_orphans(state, {.nodes = {}, .unlisted = {{"slurm", "away"}}}, Time{}));
}

// A machine of Slurm may have joined under its name, and Slurm still has it in its partition.
TEST(GangOf, HostsOfOtherEnginesAreExcludedFromAJob) {
  model::State state = state_of_two_engines();
  model::Run run;
  run.id = {"demo", 1};
  run.epoch = 1;
  model::apply(state, run);
  model::Attempt attempt;
  attempt.id = {run.id, 1};
  attempt.is_placed = false;
  attempt.engine = "slurm";
  model::apply(state, attempt);
  model::Node node;
  node.id = {attempt.id, 0};
  model::apply(state, node);
  const auto keys = host::Keys::from_values(
      net::Secret::from_hex(std::string(2 * net::Secret::kBytes, '5')).value(), "token");
  const engine::Gang gang = gang_of(state, attempt, {.keys = keys, .costs = ""});
  EXPECT_EQ(gang.excluded_hosts, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace lockstep::controller
