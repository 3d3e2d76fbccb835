// The state of a host after losses of runs (of their node, or of a rank without a reason of its
// own). One loss may be chance. After the second the host is used only if no other host has
// capacity. After the third it is drained until an operator opens it.
#pragma once

#include "platform/core/model/host_state.h"

namespace lockstep::sched {

inline constexpr int kLossesToAvoid = 2;
inline constexpr int kLossesToDrain = 3;

constexpr model::HostState state_after_losses(int losses) {
  if (losses >= kLossesToDrain) return model::HostState::drained;
  return losses >= kLossesToAvoid ? model::HostState::avoided : model::HostState::open;
}

}  // namespace lockstep::sched
