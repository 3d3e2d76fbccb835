#include "comm/algorithm/dissemination_barrier.h"

namespace lockstep {

Result<void> dissemination_barrier(Exchange& exchange) {
  const int size = exchange.size();
  std::size_t round = 0;
  for (int distance = 1; distance < size; distance *= 2, ++round) {
    const int to = (exchange.rank() + distance) % size;
    const int from = (exchange.rank() + size - distance) % size;
    TRY(exchange.claim(to));
    exchange.publish(to, round, 0);
    TRY(exchange.receive(from, round, 0));
    exchange.release(from);
  }
  return {};
}

}  // namespace lockstep
