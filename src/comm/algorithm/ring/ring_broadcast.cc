#include "comm/algorithm/ring/ring_broadcast.h"

#include <cstddef>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/ring/ring.h"

namespace lockstep::comm {

Result<void> ring_broadcast(MessageExchange& exchange, BufferParts& parts, int root) {
  const auto at = ring_neighbours(exchange);
  const bool receives = exchange.rank() != root;
  const bool sends = at.right != root;
  const auto room = chain_piece_bytes(parts.count() * parts.longest() * parts.element(),
                                      exchange.ring().size(), exchange.piece_bytes());
  const auto pieces = piece_count(parts.longest(), room / parts.element());
  for (std::size_t i = 0; i < pieces * parts.count(); ++i) {
    const auto part = i / pieces;
    if (!receives && i % pieces == 0) TRY(parts.before_exchange(part));
    const auto range = cut(parts.range(part), pieces, i % pieces);
    const auto bytes = range.count() * parts.element();
    const std::byte* source = parts.at(range.begin);
    if (receives) {
      source = TRY(exchange.receive(at.left, i, bytes));
      copy_bytes(parts.at(range.begin), source, bytes);
    }
    if (sends) {
      copy_bytes(TRY(exchange.claim(at.right)), source, bytes);
      exchange.publish(at.right, i, bytes);
    }
    if (receives) exchange.release(at.left);
    if ((i + 1) % pieces == 0) TRY(parts.after_exchange(part));
  }
  return {};
}

}  // namespace lockstep::comm
