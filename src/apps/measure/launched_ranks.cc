#include "apps/measure/launched_ranks.h"

#include "comm/collective/start/launched_rank.h"

namespace lockstep {

Result<std::optional<JoinedWorld>> join_launched_ranks() {
  const auto launched = own_launched_rank();
  if (!launched || launched->size == 1) return std::optional<JoinedWorld>();
  return std::optional<JoinedWorld>(TRY(join({.timeout = std::chrono::minutes(1)})));
}

}  // namespace lockstep
