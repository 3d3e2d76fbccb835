// Blame: what becomes of a host on which runs were lost (their node, or a rank for no reason of its
// own). One loss may be chance. After the second it is taken only if nothing else has room, after
// the third it is drained, until somebody has looked at it and opens it.
#pragma once

#include "platform/core/model/host_state.h"

namespace lockstep {

inline constexpr int kLossesToAvoid = 2;
inline constexpr int kLossesToDrain = 3;

constexpr HostState state_after_losses(int losses) {
  if (losses >= kLossesToDrain) return HostState::drained;
  return losses >= kLossesToAvoid ? HostState::avoided : HostState::open;
}

}  // namespace lockstep
