// A small world around step() for tests: a state, a clock that the test moves, and the requested
// effects.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "platform/core/model/command.h"
#include "platform/core/step/step.h"

namespace lockstep::step::testing_world {

// Hosts a, b, c, ... in one pod.
inline map::ClusterMap map_of(int hosts, int devices) {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (int i = 0; i < hosts; ++i) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = std::string(1, static_cast<char>('a' + i));
    host.islands.emplace_back().devices.resize(static_cast<std::size_t>(devices));
  }
  return map;
}

// The report of a host's service.
inline map::Host facts_of(const std::string& id, int devices) {
  map::Host host;
  host.id = id;
  host.cores = 4;
  host.islands.emplace_back();
  for (int number = 0; number < devices; ++number)
    host.islands[0].devices.push_back({map::DeviceKind::gpu, number, {}});
  return host;
}

inline model::RunSpec spec_of(int nodes, int devices) {
  model::RunSpec spec;
  spec.project = "demo";
  spec.command = {"train"};
  spec.nodes = nodes;
  spec.devices = devices;
  return spec;
}

// Events of the engine.
inline model::NodeSeen node_gone(const model::NodeId& node) {
  return {node, {.phase = model::NodePhase::gone}};
}
inline model::NodeSeen agent_gone(const model::NodeId& node) {
  return {node, {.has_agent = false}};
}
inline model::NodeSeen not_started(const model::NodeId& node, const std::string& reason,
                                   model::EndBlame blame = model::EndBlame::host) {
  return {node, {.phase = model::NodePhase::gone, .reason = reason, .blame = blame}};
}

class World {
 public:
  explicit World(map::ClusterMap map) { state.map = std::move(map); }

  Result<void> apply_event(const model::Event& event) {
    Outcome outcome = TRY(step(state, event, now));
    for (const model::Change& change : outcome.changes) model::apply(state, change);
    effects.insert(effects.end(), outcome.effects.begin(), outcome.effects.end());
    return {};
  }
  void apply_event_ok(const model::Event& event) {
    auto happened = apply_event(event);
    EXPECT_TRUE(happened) << (happened ? "" : happened.error().message);
  }
  void advance_time(Duration duration) {
    now += duration;
    apply_event_ok(model::Tick{});
  }

  model::RunId submit(const model::RunSpec& spec) {
    apply_event_ok(model::SubmitRun{spec, {}});
    return state.runs.rbegin()->first;
  }
  const model::Run& run(const model::RunId& id) const { return state.runs.at(id); }
  const model::Attempt& attempt(const model::RunId& id) const {
    return state.attempts.at({id, run(id).epoch});
  }
  model::NodeId node(const model::RunId& id, int index) const {
    return {{id, run(id).epoch}, index};
  }

  model::NodeReport report(const model::NodeId& id, model::NodeState said) const {
    model::NodeReport report;
    report.node = id;
    report.state = said;
    report.address = "10.0.0.1";
    report.master_port = 4000;
    report.rendezvous_port = 5000;
    return report;
  }
  // All ranks of the node, running.
  model::NodeReport running(const model::NodeId& id) const {
    auto word = report(id, model::NodeState::running);
    const int devices = static_cast<int>(state.nodes.at(id).devices.size());
    for (int i = 0; i < devices; ++i) {
      model::Rank rank;
      rank.rank = id.index * state.runs.at(id.attempt.run).spec.devices + i;
      rank.local_rank = i;
      word.ranks.push_back(rank);
    }
    return word;
  }
  // All of them ended.
  model::NodeReport ended(const model::NodeId& id, model::RankState how, int code,
                          bool by_us = false) const {
    auto word = running(id);
    for (model::Rank& rank : word.ranks) {
      rank.state = how;
      rank.code = code;
      rank.signalled_by_agent = by_us;
      rank.ended = now;
    }
    return word;
  }
  std::vector<model::NodeId> nodes(const model::RunId& id) const {
    std::vector<model::NodeId> ids;
    for (const model::Node* node : model::nodes_of(state, {id, run(id).epoch}))
      ids.push_back(node->id);
    return ids;
  }
  void all_ready(const model::RunId& id) {
    for (const model::NodeId& node : nodes(id))
      apply_event_ok(report(node, model::NodeState::ready));
  }
  void all_running(const model::RunId& id) {
    all_ready(id);
    for (const model::NodeId& node : nodes(id)) apply_event_ok(running(node));
  }
  void all_terminated(const model::RunId& id) {
    for (const model::NodeId& node : nodes(id)) apply_event_ok(node_gone(node));
  }
  template <class What>
  int count() const {
    int n = 0;
    for (const model::Effect& effect : effects) n += std::holds_alternative<What>(effect);
    return n;
  }

  model::State state;
  Time now = Time(std::chrono::hours(24 * 365 * 50));
  std::vector<model::Effect> effects;
};

// Two hosts of two devices each.
class StepTest : public ::testing::Test {
 protected:
  model::CommandKind command(const model::RunId& run, int node) {
    return model::command_for(world.state, {"", world.node(run, node)}).kind;
  }
  // Ends the attempt as the agents would: ranks by their signal, then no process left.
  void drain(const model::RunId& run) {
    for (const model::NodeId& node : world.nodes(run)) {
      auto word = world.ended(node, model::RankState::killed, 15, true);
      word.state = model::NodeState::stopping;
      world.apply_event_ok(word);
    }
    world.all_terminated(run);
  }
  // Loses a rank as in a second attempt: rank 0 is killed by SIGKILL.
  void lose_a_rank(const model::RunId& run) {
    world.all_running(run);
    world.apply_event_ok(world.ended(world.node(run, 0), model::RankState::killed, 9));
    drain(run);
  }

  World world{map_of(2, 2)};
};

}  // namespace lockstep::step::testing_world
