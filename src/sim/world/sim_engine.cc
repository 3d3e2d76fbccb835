#include "sim/world/sim_engine.h"

namespace lockstep::sim {
namespace {

const Error kDaemonDead{Code::unavailable, "the daemon is dead"};

}  // namespace

Result<void> SimEngine::launch(const engine::LaunchSpec& launch) {
  if (!components_.crash_points.pass("before a launch")) return kDaemonDead;
  components_.truth.check_launch(launch);
  auto started = start(launch);
  components_.context.trace("engine", "launches {} on {}{}{}", launch.node, launch.host,
                            started ? "" : ": ", started ? "" : started.error().message);
  if (!started)
    components_.truth.mark_disturbed(
        {launch.generation, model::parse_node_id(launch.node).value().attempt});
  delay_answer();
  components_.crash_points.pass("after a launch");
  return started;
}

Result<void> SimEngine::start(const engine::LaunchSpec& launch) {
  if (launch_fault_ == LaunchFault::refused) return Error{Code::unavailable, "no more processes"};
  if (!components_.network.can_reach(launch.host))
    return Error{Code::unavailable, "host " + launch.host + " cannot be reached"};
  const model::NodeName node{launch.generation, model::parse_node_id(launch.node).value()};
  if (!components_.hosts.nodes().contains(node)) TRY(components_.hosts.start(launch));
  if (launch_fault_ == LaunchFault::answer_lost) return Error{Code::timeout, "no answer"};
  return {};
}

Result<void> SimEngine::kill(const model::NodeName& node) {
  if (!components_.crash_points.pass("before a kill")) return kDaemonDead;
  components_.truth.check_kill(node);
  auto killed = find_and_kill(node);
  components_.context.trace("engine", "kills {}{}{}", text(node), killed ? "" : ": ",
                            killed ? "" : killed.error().message);
  delay_answer();
  components_.crash_points.pass("after a kill");
  return killed;
}

Result<void> SimEngine::find_and_kill(const model::NodeName& node) {
  for (const auto& [id, agent] : components_.hosts.agents())
    if (agent->name() == node && !components_.network.can_reach(agent->host()))
      return Error{Code::unavailable, "host " + agent->host() + " cannot be reached"};
  components_.hosts.kill(node);
  return {};
}

bool SimEngine::has_started(const model::NodeName& node) {
  return components_.hosts.launch_of(node) != nullptr;
}

Result<engine::LaunchSpec> SimEngine::read_launch_spec(const model::NodeName& node) {
  const engine::LaunchSpec* launch = components_.hosts.launch_of(node);
  if (!launch) return Error{Code::not_found, "there is no launch file"};
  return *launch;
}

Result<std::vector<engine::RunningNode>> SimEngine::list() {
  if (!components_.crash_points.pass("before a look")) return kDaemonDead;
  std::vector<engine::RunningNode> present;
  for (const model::NodeName& node : components_.hosts.nodes())
    present.push_back({node, components_.hosts.has_agent(node)});
  delay_answer();
  if (!components_.crash_points.pass("after a look")) return kDaemonDead;
  if (list_fails_) return Error{Code::unavailable, "the engine does not answer"};
  return present;
}

// Simulated time passes meanwhile; the daemon waits for the answer and does nothing else.
void SimEngine::delay_answer() {
  if (slow_ > Duration(0)) components_.context.timeline.pass(random_.from_to(Duration(0), slow_));
}

}  // namespace lockstep::sim
