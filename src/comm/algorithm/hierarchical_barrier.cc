#include "comm/algorithm/hierarchical_barrier.h"

#include "comm/algorithm/dissemination_barrier.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/sub_exchange.h"

namespace lockstep {

Result<void> hierarchical_barrier(Exchange& exchange, const Call& call) {
  auto* const host = exchange.host();
  if (host != nullptr) TRY(host->bring(call.header, {}, 0));
  if (host == nullptr || host->place() == 0) {
    const auto lowest = lane_of(exchange, 0);
    SubExchange others(exchange, lowest);
    TRY(dissemination_barrier(others));
  }
  return host == nullptr ? Result<void>() : host->meet();
}

}  // namespace lockstep
