#include "apps/measure/launched_ranks.h"

#include "comm/collective/start/launched_rank.h"

namespace lockstep::cli {

Result<std::optional<comm::JoinedWorld>> join_launched_ranks() {
  const auto launched = comm::own_launched_rank();
  if (!launched || launched->size == 1) return std::optional<comm::JoinedWorld>();
  return std::optional<comm::JoinedWorld>(TRY(comm::join({.timeout = std::chrono::minutes(1)})));
}

}  // namespace lockstep::cli
