// SimScenario: a simulation with two hosts of two devices each, without faults except those that
// the test injects. Its users repeat each request until it succeeds.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "sim/simulation.h"

namespace lockstep::sim {

inline map::ClusterMap two_hosts() {
  map::ClusterMap map;
  map::Leaf& leaf = map.pods.emplace_back().leaves.emplace_back();
  for (auto id : {"a", "b"}) {
    map::Host& host = leaf.hosts.emplace_back();
    host.id = id;
    for (int number : {0, 1})
      host.islands.emplace_back().devices.push_back({map::DeviceKind::gpu, number, {}, false});
  }
  return map;
}

class SimScenario {
 public:
  explicit SimScenario(std::function<Duration()> absence,
                       const model::Settings& settings = simulated_settings())
      : world_({.map = two_hosts(), .downtime = std::move(absence), .settings = settings}) {}

  explicit SimScenario(const SimulationSetup& setup) : world_(setup) {}

  // The spec of a submission, without the program.
  static model::RunSpec spec_of(const std::string& name, int nodes, int devices) {
    model::RunSpec spec;
    spec.name = name;
    spec.nodes = nodes;
    spec.devices = devices;
    spec.checkpoint_folder = "/shared/" + name;
    return spec;
  }
  // A user that gets no answer repeats the request under the same id.
  void submit(model::RunSpec spec, Program program) {
    program.checkpoint_every = 2;
    spec.command = command_of(program);
    until_done([this, spec] { return world_.daemon().submit(spec, spec.name).has_value(); });
  }
  // Like `lockstep stop --wait`: once the run runs, the user repeats the request until it succeeds,
  // and waits until the run has ended. `then` follows.
  void stop_and_wait(const std::string& name, std::function<void()> then = [] {}) {
    until_done([this, name, then = std::move(then), obeyed = false]() mutable {
      if (!obeyed && is(name, model::RunState::running)) obeyed = stop(run(name).id);
      const bool ended = known(name) && model::is_final(run(name).state);
      if (ended) then();
      return ended;
    });
  }
  // If the run is open again, the request succeeded, even if its answer was lost.
  void resume(const std::string& name) {
    until_done([this, id = run(name).id] {
      if (!model::is_final(world_.durable().runs.at(id).state)) return true;
      world_.truth().resume_requested(id);
      const bool resumed = world_.daemon().resume(id).has_value();
      world_.truth().resume_request_done(id);
      return resumed;
    });
  }
  // SIGSTOP to a rank of the run's first attempt, once its first steps are known.
  void suspend_rank(const std::string& name, int rank, std::function<void(Agent&)> then = {}) {
    until_done([this, name, rank, then = std::move(then)] {
      if (!has_stepped(name)) return false;
      Agent& agent = *agent_of(name, rank / run(name).spec.devices);
      agent.suspend_rank(rank % run(name).spec.devices);
      if (then) then(agent);
      return true;
    });
  }
  // SIGSTOP to the agent of the first attempt's node, once its ranks' first steps are known.
  void suspend_agent(const std::string& name, int node) {
    until_done([this, name, node] {
      if (!has_stepped(name)) return false;
      suspend_agent_now(name, node, model::Cause::node_lost);
      return true;
    });
  }
  // The agent must exist. The attempt must end because of this.
  void suspend_agent_now(const std::string& name, int node, model::Cause cause) {
    Agent& agent = *agent_of(name, node);
    const std::string who = format("node {} on host {}", node, agent.host());
    world_.truth().record_fault(agent.name().attempt(), {{cause}, who});
    agent.suspend();
  }
  // The agent of the first attempt's node; it must exist.
  std::shared_ptr<Agent> agent_of(const std::string& name, int node) {
    for (const auto& [id, agent] : world_.hosts().agents())
      if (agent->node() == model::NodeId{{run(name).id, 1}, node}) return agent;
    LS_CHECK(false, "there is no agent of {}, node {}", name, node);
  }
  // Repeats the act every second.
  void until_done(std::function<bool()> act) {
    if (act()) return;
    world_.context().timeline.after(std::chrono::seconds(1),
                                    [this, act = std::move(act)] { until_done(act); });
  }

  bool known(const std::string& name) const {
    return std::ranges::any_of(world_.durable().runs,
                               [&](const auto& entry) { return entry.second.spec.name == name; });
  }
  bool is(const std::string& name, model::RunState state) const {
    return known(name) && run(name).state == state;
  }
  // The run must exist.
  const model::Run& run(const std::string& name) const {
    for (const auto& [id, run] : world_.durable().runs)
      if (run.spec.name == name) return run;
    LS_CHECK(false, "there is no run {}", name);
  }
  const model::Attempt& attempt(const std::string& name, std::int64_t epoch) const {
    return world_.durable().attempts.at({run(name).id, epoch});
  }
  Simulation& world() { return world_; }

 private:
  bool stop(const model::RunId& run) {
    world_.truth().stop_requested(run);
    if (!world_.daemon().stop(run)) return false;
    world_.truth().check_stop_acknowledged(run);
    return true;
  }
  // Its first attempt.
  bool has_stepped(const std::string& name) const {
    if (!known(name)) return false;
    const auto nodes = model::nodes_of(world_.durable(), {run(name).id, 1});
    return !nodes.empty() && std::ranges::all_of(nodes, [](const model::Node* node) {
      return !node->ranks.empty() && node->ranks.front().step >= 1;
    });
  }

  Simulation world_;
};

}  // namespace lockstep::sim
