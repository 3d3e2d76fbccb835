#include "comm/algorithm/dissemination_barrier.h"

#include <cstddef>

#include "comm/algorithm/ring.h"

namespace lockstep {

Result<void> dissemination_barrier(Exchange& exchange) {
  const auto ring = exchange.ring();
  const auto place = static_cast<std::size_t>(neighbours(exchange).place);
  std::size_t round = 0;
  for (std::size_t distance = 1; distance < ring.size(); distance *= 2, ++round) {
    const int to = ring[(place + distance) % ring.size()];
    const int from = ring[(place + ring.size() - distance) % ring.size()];
    TRY(exchange.claim(to));
    exchange.publish(to, round, 0);
    TRY(exchange.receive(from, round, 0));
    exchange.release(from);
  }
  return {};
}

}  // namespace lockstep
