#include "sim/sim_engine.h"

namespace lockstep::sim {
namespace {

const Error kDaemonDead{Code::unavailable, "the daemon is dead"};

}  // namespace

Result<void> SimEngine::launch(const Launch& launch) {
  if (!world_.life.pass("before a launch")) return kDaemonDead;
  world_.truth.launching(launch);
  auto started = start(launch);
  world_.scene.tell("engine", "launches {} on {}{}{}", launch.node, launch.host,
                    started ? "" : ": ", started ? "" : started.error().message);
  if (!started) world_.truth.touch({launch.generation, parse_node_id(launch.node).value().attempt});
  take_time();
  world_.life.pass("after a launch");
  return started;
}

Result<void> SimEngine::start(const Launch& launch) {
  if (launch_fault_ == LaunchFault::refused) return Error{Code::unavailable, "no more processes"};
  if (!world_.network.reaches(launch.host))
    return Error{Code::unavailable, "host " + launch.host + " cannot be reached"};
  const NodeName node{launch.generation, parse_node_id(launch.node).value()};
  if (!world_.hosts.nodes().contains(node)) TRY(world_.hosts.start(launch));
  if (launch_fault_ == LaunchFault::answer_lost) return Error{Code::timeout, "no answer"};
  return {};
}

Result<void> SimEngine::kill(const NodeName& node) {
  if (!world_.life.pass("before a kill")) return kDaemonDead;
  world_.truth.killing(node);
  auto killed = find_and_kill(node);
  world_.scene.tell("engine", "kills {}{}{}", text(node), killed ? "" : ": ",
                    killed ? "" : killed.error().message);
  take_time();
  world_.life.pass("after a kill");
  return killed;
}

Result<void> SimEngine::find_and_kill(const NodeName& node) {
  for (const auto& [id, agent] : world_.hosts.agents())
    if (agent->name() == node && !world_.network.reaches(agent->host()))
      return Error{Code::unavailable, "host " + agent->host() + " cannot be reached"};
  world_.hosts.kill(node);
  return {};
}

bool SimEngine::has_begun(const NodeName& node) { return world_.hosts.launch_of(node) != nullptr; }

Result<Launch> SimEngine::launch_of(const NodeName& node) {
  const Launch* launch = world_.hosts.launch_of(node);
  if (!launch) return Error{Code::not_found, "there is no launch file"};
  return *launch;
}

Result<std::vector<Present>> SimEngine::list() {
  if (!world_.life.pass("before a look")) return kDaemonDead;
  std::vector<Present> present;
  for (const NodeName& node : world_.hosts.nodes())
    present.push_back({node, world_.hosts.has_agent(node)});
  take_time();
  if (!world_.life.pass("after a look")) return kDaemonDead;
  if (blind_) return Error{Code::unavailable, "the engine does not answer"};
  return present;
}

// The world goes on meanwhile; the daemon, which waits for the answer, hears and does nothing.
void SimEngine::take_time() {
  if (slow_ > Duration(0)) world_.scene.timeline.pass(dice_.from_to(Duration(0), slow_));
}

}  // namespace lockstep::sim
