#include "platform/controller/engine_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::controller {
namespace {

using model::EndBlame;
using model::NodePhase;
using ::testing::ElementsAre;

const model::AttemptId kAttempt{{"demo", 1}, 1};
const std::string kGeneration = "1111111111111111";

model::NodeName name_of_node(int index) { return {kGeneration, {kAttempt, index}}; }

// A run with one attempt of some nodes, in these states.
model::State state_with(model::AttemptState attempt_state, int nodes, model::NodeState node_state) {
  model::State state;
  model::Run run;
  run.id = kAttempt.run;
  run.epoch = 1;
  run.spec.nodes = nodes;
  run.state = attempt_state == model::AttemptState::ended ? model::RunState::cancelled
                                                          : model::RunState::running;
  model::apply(state, run);
  model::Attempt attempt;
  attempt.id = kAttempt;
  attempt.generation = kGeneration;
  attempt.state = attempt_state;
  attempt.is_placed = false;
  model::apply(state, attempt);
  for (int index = 0; index < nodes; ++index) {
    model::Node node;
    node.id = {kAttempt, index};
    node.state = node_state;
    model::apply(state, node);
  }
  return state;
}

engine::EngineList list_of(std::vector<model::Observation> seen) {
  engine::EngineList listed;
  for (std::size_t i = 0; i < seen.size(); ++i)
    listed.nodes.push_back({.node = name_of_node(static_cast<int>(i)), .seen = std::move(seen[i])});
  return listed;
}

// An engine may end all nodes of a job because a host of one of them has failed.
TEST(EngineNews, TheNodeWhoseHostFailedComesFirst) {
  const auto state = state_with(model::AttemptState::running, 3, model::NodeState::running);
  const auto news =
      news_of_nodes(state, {{kAttempt, 0}, {kAttempt, 1}, {kAttempt, 2}},
                    list_of({{.phase = NodePhase::gone, .blame = EndBlame::engine},
                             {.phase = NodePhase::gone, .blame = EndBlame::unknown},
                             {.phase = NodePhase::gone, .blame = EndBlame::host, .host = "c"}}));
  std::vector<int> order;
  for (const model::Event& event : news)
    order.push_back(std::get<model::NodeSeen>(event).node.index);
  EXPECT_THAT(order, ElementsAre(2, 0, 1));
}

// It was submitted by a call without an answer, and had no job when its attempt ended.
TEST(EngineNews, AnEndedAttemptWhoseJobWaitsHasReturned) {
  const auto state = state_with(model::AttemptState::ended, 2, model::NodeState::released);
  const auto returned =
      returned_nodes(state, list_of({{.phase = NodePhase::pending}, {.phase = NodePhase::gone}}));
  ASSERT_EQ(returned.size(), 1u);
  EXPECT_EQ(returned[0].node.index, 0);
}

}  // namespace
}  // namespace lockstep::controller
