// Story: a world with two hosts of two devices each and no faults but those that the story tells
// of, and users who ask until they are obeyed.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "sim/world.h"

namespace lockstep::sim {

inline Map two_hosts() {
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

class Story {
 public:
  explicit Story(std::function<Duration()> absence)
      : world_({.map = two_hosts(), .absence = std::move(absence)}) {}

  // How to submit: the program is added to it.
  static RunSpec spec_of(const std::string& name, int nodes, int devices) {
    RunSpec spec;
    spec.name = name;
    spec.nodes = nodes;
    spec.devices = devices;
    spec.checkpoint_folder = "/shared/" + name;
    return spec;
  }
  // A user who gets no answer asks again under the same id.
  void submit(RunSpec spec, Program program) {
    program.checkpoint_every = 2;
    spec.command = command_of(program);
    until_done([this, spec] { return world_.daemon().submit(spec, spec.name).has_value(); });
  }
  // As `lockstep stop --wait` does: once it runs he asks until he is obeyed, and looks until it has
  // ended. `then` follows.
  void stop_and_wait(const std::string& name, std::function<void()> then = [] {}) {
    until_done([this, name, then = std::move(then), obeyed = false]() mutable {
      if (!obeyed && is(name, RunState::running)) obeyed = stop(run(name).id);
      const bool ended = known(name) && is_final(run(name).state);
      if (ended) then();
      return ended;
    });
  }
  // Of one that is open again he was obeyed, whether he heard of it or not.
  void resume(const std::string& name) {
    until_done([this, id = run(name).id] {
      if (!is_final(world_.durable().runs.at(id).state)) return true;
      world_.truth().asks_to_resume(id);
      const bool resumed = world_.daemon().resume(id).has_value();
      world_.truth().has_asked_to_resume(id);
      return resumed;
    });
  }
  // SIGSTOP to a rank of the run's first attempt, once its first steps are known.
  void stop_rank(const std::string& name, int rank, std::function<void(Agent&)> then = {}) {
    until_done([this, name, rank, then = std::move(then)] {
      if (!has_stepped(name)) return false;
      Agent& agent = *agent_of(name, rank / run(name).spec.devices);
      agent.stop_rank(rank % run(name).spec.devices);
      if (then) then(agent);
      return true;
    });
  }
  // SIGSTOP to the agent of the first attempt's node, once its ranks' first steps are known.
  void stop_agent(const std::string& name, int node) {
    until_done([this, name, node] {
      if (!has_stepped(name)) return false;
      stop_agent_now(name, node, Cause::node_lost);
      return true;
    });
  }
  // It must be there. The attempt is to end of this.
  void stop_agent_now(const std::string& name, int node, Cause cause) {
    Agent& agent = *agent_of(name, node);
    const std::string who = format("node {} on host {}", node, agent.host());
    world_.truth().befalls(agent.name().attempt(), {{cause}, who});
    agent.stand_still();
  }
  // Of the first attempt's node; it must be there.
  std::shared_ptr<Agent> agent_of(const std::string& name, int node) {
    for (const auto& [id, agent] : world_.hosts().agents())
      if (agent->node() == NodeId{{run(name).id, 1}, node}) return agent;
    LS_CHECK(false, "there is no agent of {}, node {}", name, node);
  }
  // Again every second.
  void until_done(std::function<bool()> act) {
    if (act()) return;
    world_.scene().timeline.after(std::chrono::seconds(1),
                                  [this, act = std::move(act)] { until_done(act); });
  }

  bool known(const std::string& name) const {
    return std::ranges::any_of(world_.durable().runs,
                               [&](const auto& entry) { return entry.second.spec.name == name; });
  }
  bool is(const std::string& name, RunState state) const {
    return known(name) && run(name).state == state;
  }
  // It must be known.
  const Run& run(const std::string& name) const {
    for (const auto& [id, run] : world_.durable().runs)
      if (run.spec.name == name) return run;
    LS_CHECK(false, "there is no run {}", name);
  }
  const Attempt& attempt(const std::string& name, std::int64_t epoch) const {
    return world_.durable().attempts.at({run(name).id, epoch});
  }
  World& world() { return world_; }

 private:
  bool stop(const RunId& run) {
    world_.truth().asks_to_stop(run);
    if (!world_.daemon().stop(run)) return false;
    world_.truth().promised_to_stop(run);
    return true;
  }
  // Its first attempt.
  bool has_stepped(const std::string& name) const {
    if (!known(name)) return false;
    const auto nodes = nodes_of(world_.durable(), {run(name).id, 1});
    return !nodes.empty() && std::ranges::all_of(nodes, [](const Node* node) {
      return !node->ranks.empty() && node->ranks.front().step >= 1;
    });
  }

  World world_;
};

}  // namespace lockstep::sim
