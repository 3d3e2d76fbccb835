#include "comm/algorithm/ring_broadcast.h"

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"

namespace lockstep {

Result<void> ring_broadcast(Exchange& exchange, std::span<std::byte> buffer, int root) {
  const auto at = neighbours(exchange);
  const bool receives = exchange.rank() != root;
  const bool sends = at.right != root;
  const auto room = exchange.piece_bytes();
  const auto pieces = std::max<std::size_t>(1, (buffer.size() + room - 1) / room);
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto range = cut(buffer.size(), pieces, i);
    const std::byte* source = buffer.data() + range.begin;
    if (receives) {
      source = TRY(exchange.receive(at.left, i, range.count()));
      copy_bytes(buffer.data() + range.begin, source, range.count());
    }
    if (sends) {
      copy_bytes(TRY(exchange.claim(at.right)), source, range.count());
      exchange.publish(at.right, i, range.count());
    }
    if (receives) exchange.release(at.left);
  }
  return {};
}

}  // namespace lockstep
