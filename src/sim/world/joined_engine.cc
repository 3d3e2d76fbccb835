#include "sim/world/joined_engine.h"

#include <utility>

namespace lockstep::sim {

engine::HostsEngine& JoinedEngine::of_daemon() {
  if (std::exchange(life_, crash_points_.crashes()) != life_ || !engine_)
    engine_.emplace(engine::HostsEngine::Setup{.steady = context_.clock,
                                               .clock = context_.clock,
                                               .session = format("daemon {}", life_),
                                               .silent_after = silent_after_});
  return *engine_;
}

void JoinedEngine::submit(engine::Gang gang) {
  if (!crash_points_.pass("before a launch")) return;
  for (const engine::NodePlacement& placement : gang.nodes)
    truth_.check_submission(engine::launch_spec(gang, placement, ""));
  context_.trace("engine", "orders {}", text(gang.attempt));
  of_daemon().submit(std::move(gang));
  crash_points_.pass("after a launch");
}

void JoinedEngine::kill(const model::NodeName& node) {
  if (!crash_points_.pass("before a kill")) return;
  truth_.check_kill(node);
  context_.trace("engine", "orders the end of {}", text(node));
  of_daemon().kill(node);
  crash_points_.pass("after a kill");
}

Result<engine::EngineList> JoinedEngine::list() {
  const Error dead{Code::unavailable, "the daemon is dead"};
  if (!crash_points_.pass("before a look")) return dead;
  auto listed = of_daemon().list();
  if (!crash_points_.pass("after a look")) return dead;
  return listed;
}

}  // namespace lockstep::sim
