#include "apps/ranks.h"

#include "comm/start/launched_rank.h"

namespace lockstep {

Result<std::optional<Joined>> join_launched_ranks() {
  const auto launched = own_launched_rank();
  if (!launched || launched->size == 1) return std::optional<Joined>();
  return std::optional<Joined>(TRY(join({.timeout = std::chrono::minutes(1)})));
}

}  // namespace lockstep
