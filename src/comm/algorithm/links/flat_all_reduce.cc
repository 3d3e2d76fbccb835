#include "comm/algorithm/links/flat_all_reduce.h"

#include <array>

#include "base/check.h"
#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {

Result<void> flat_all_reduce(MessageExchange& exchange, BufferParts& parts, DataType type,
                             ReduceOp op) {
  const auto ring = exchange.ring();
  const auto ring_index = static_cast<std::size_t>(ring_neighbours(exchange).ring_index);
  const auto count = parts.range(0).count(), bytes = count * parts.element();
  auto* const buffer = parts.at(0);
  LS_CHECK(parts.count() == 1 && bytes <= kFlatBytes);
  TRY(parts.before_exchange(0));
  for (std::size_t i = 1; i < ring.size(); ++i) {  // each begins with another peer
    const int peer = ring[(ring_index + i) % ring.size()];
    copy_bytes(TRY(exchange.claim(peer)), buffer, bytes);
    exchange.publish(peer, 0, bytes);
  }
  alignas(64) std::array<std::byte, kFlatBytes> sum;
  for (std::size_t source = 0; source < ring.size(); ++source) {
    const bool own = source == ring_index;
    const auto* share = own ? buffer : TRY(exchange.receive(ring[source], 0, bytes));
    if (source == 0)
      copy_bytes(sum.data(), share, bytes);
    else
      combine(sum.data(), sum.data(), share, count, type, op);
    if (!own) exchange.release(ring[source]);
  }
  finish(sum.data(), count, type, op, exchange.size());
  copy_bytes(buffer, sum.data(), bytes);
  return parts.after_exchange(0);
}

}  // namespace lockstep::comm
