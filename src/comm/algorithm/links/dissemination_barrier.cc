#include "comm/algorithm/links/dissemination_barrier.h"

#include <cstddef>

#include "comm/algorithm/ring/ring.h"

namespace lockstep::comm {

Result<void> dissemination_barrier(MessageExchange& exchange) {
  const auto ring = exchange.ring();
  const auto ring_index = static_cast<std::size_t>(ring_neighbours(exchange).ring_index);
  std::size_t round = 0;
  for (std::size_t distance = 1; distance < ring.size(); distance *= 2, ++round) {
    const int to = ring[(ring_index + distance) % ring.size()];
    const int from = ring[(ring_index + ring.size() - distance) % ring.size()];
    TRY(exchange.claim(to));
    exchange.publish(to, round, 0);
    TRY(exchange.receive(from, round, 0));
    exchange.release(from);
  }
  return {};
}

}  // namespace lockstep::comm
