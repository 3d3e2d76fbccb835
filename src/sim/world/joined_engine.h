// JoinedEngine: the HostsEngine of the present daemon. Each daemon begins with a new one, and may
// die before or after each of its calls.
#pragma once

#include <optional>
#include <string>

#include "platform/engine/hosts/hosts_engine.h"
#include "sim/checks/ground_truth.h"
#include "sim/faults/crash_points.h"

namespace lockstep::sim {

class JoinedEngine : public engine::Engine {
 public:
  // silent_after: as in HostsEngine::Setup.
  JoinedEngine(SimContext& context, CrashPoints& crash_points, GroundTruth& truth,
               Duration silent_after)
      : context_(context),
        crash_points_(crash_points),
        truth_(truth),
        silent_after_(silent_after) {}

  std::string_view name() const override { return "hosts"; }
  void submit(engine::Gang gang) override;
  void kill(const model::NodeName& node) override;
  Result<engine::EngineList> list() override;

  engine::HostsEngine& of_daemon();

 private:
  SimContext& context_;
  CrashPoints& crash_points_;
  GroundTruth& truth_;
  const Duration silent_after_;
  std::optional<engine::HostsEngine> engine_;
  int life_ = -1;  // of the daemon that `engine_` belongs to
};

}  // namespace lockstep::sim
