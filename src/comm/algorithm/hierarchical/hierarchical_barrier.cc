#include "comm/algorithm/hierarchical/hierarchical_barrier.h"

#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/links/dissemination_barrier.h"

namespace lockstep::comm {

Result<void> hierarchical_barrier(MessageExchange& exchange, const CollectiveCall& call) {
  auto* const host = exchange.host_group();
  if (host != nullptr) TRY(host->enter_inline(call.header, {}, 0));
  if (host == nullptr || host->local_rank() == 0) {
    const auto lowest = rail_ranks(exchange, 0);
    SubgroupExchange others(exchange, lowest);
    TRY(dissemination_barrier(others));
  }
  return host == nullptr ? Result<void>() : host->barrier();
}

}  // namespace lockstep::comm
