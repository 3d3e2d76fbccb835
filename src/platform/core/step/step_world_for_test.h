// A small world around step() for tests: a state, a clock that the test moves, and the requested
// effects.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "platform/core/model/command.h"
#include "platform/core/step/step.h"

namespace lockstep::testing_world {

// Hosts a, b, c, ... in one pod.
inline ClusterMap map_of(int hosts, int devices) {
  ClusterMap map;
  Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (int i = 0; i < hosts; ++i) {
    Host& host = leaf.hosts.emplace_back();
    host.id = std::string(1, static_cast<char>('a' + i));
    host.islands.emplace_back().devices.resize(static_cast<std::size_t>(devices));
  }
  return map;
}

inline RunSpec spec_of(int nodes, int devices) {
  RunSpec spec;
  spec.project = "demo";
  spec.command = {"train"};
  spec.nodes = nodes;
  spec.devices = devices;
  return spec;
}

class World {
 public:
  explicit World(ClusterMap map) { state.map = std::move(map); }

  Result<void> apply_event(const Event& event) {
    Outcome outcome = TRY(step(state, event, now));
    for (const Change& change : outcome.changes) apply(state, change);
    effects.insert(effects.end(), outcome.effects.begin(), outcome.effects.end());
    return {};
  }
  void apply_event_ok(const Event& event) {
    auto happened = apply_event(event);
    EXPECT_TRUE(happened) << (happened ? "" : happened.error().message);
  }
  void advance_time(Duration duration) {
    now += duration;
    apply_event_ok(Tick{});
  }

  RunId submit(const RunSpec& spec) {
    apply_event_ok(SubmitRun{spec, {}});
    return state.runs.rbegin()->first;
  }
  const Run& run(const RunId& id) const { return state.runs.at(id); }
  const Attempt& attempt(const RunId& id) const { return state.attempts.at({id, run(id).epoch}); }
  NodeId node(const RunId& id, int index) const { return {{id, run(id).epoch}, index}; }

  NodeReport report(const NodeId& id, NodeState said) const {
    NodeReport report;
    report.node = id;
    report.state = said;
    report.address = "10.0.0.1";
    report.master_port = 4000;
    report.rendezvous_port = 5000;
    return report;
  }
  // All ranks of the node, running.
  NodeReport running(const NodeId& id) const {
    auto word = report(id, NodeState::running);
    const int devices = static_cast<int>(state.nodes.at(id).devices.size());
    for (int i = 0; i < devices; ++i) {
      Rank rank;
      rank.rank = id.index * state.runs.at(id.attempt.run).spec.devices + i;
      rank.local_rank = i;
      word.ranks.push_back(rank);
    }
    return word;
  }
  // All of them ended.
  NodeReport ended(const NodeId& id, RankState how, int code, bool by_us = false) const {
    auto word = running(id);
    for (Rank& rank : word.ranks) {
      rank.state = how;
      rank.code = code;
      rank.signalled_by_agent = by_us;
      rank.ended = now;
    }
    return word;
  }
  std::vector<NodeId> nodes(const RunId& id) const {
    std::vector<NodeId> ids;
    for (const Node* node : nodes_of(state, {id, run(id).epoch})) ids.push_back(node->id);
    return ids;
  }
  void all_ready(const RunId& id) {
    for (const NodeId& node : nodes(id)) apply_event_ok(report(node, NodeState::ready));
  }
  void all_running(const RunId& id) {
    all_ready(id);
    for (const NodeId& node : nodes(id)) apply_event_ok(running(node));
  }
  void all_terminated(const RunId& id) {
    for (const NodeId& node : nodes(id)) apply_event_ok(NodeTerminated{node});
  }
  template <class What>
  int count() const {
    int n = 0;
    for (const Effect& effect : effects) n += std::holds_alternative<What>(effect);
    return n;
  }

  State state;
  Time now = Time(std::chrono::hours(24 * 365 * 50));
  std::vector<Effect> effects;
};

// Two hosts of two devices each.
class StepTest : public ::testing::Test {
 protected:
  CommandKind command(const RunId& run, int node) {
    return command_for(world.state, {"", world.node(run, node)}).kind;
  }
  // Ends the attempt as the agents would: ranks by their signal, then no process left.
  void drain(const RunId& run) {
    for (const NodeId& node : world.nodes(run)) {
      auto word = world.ended(node, RankState::killed, 15, true);
      word.state = NodeState::stopping;
      world.apply_event_ok(word);
    }
    world.all_terminated(run);
  }
  // Loses a rank as in a second attempt: rank 0 is killed by SIGKILL.
  void lose_a_rank(const RunId& run) {
    world.all_running(run);
    world.apply_event_ok(world.ended(world.node(run, 0), RankState::killed, 9));
    drain(run);
  }

  World world{map_of(2, 2)};
};

}  // namespace lockstep::testing_world
