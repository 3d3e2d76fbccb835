#include "comm/algorithm/ring_reduce.h"

#include "comm/algorithm/copy.h"
#include "comm/algorithm/ring.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep {

// A rank waits only for its left neighbour's data and its right one's room, and the chain has an
// end: nobody waits in a circle.
Result<void> ring_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                         ReduceOp op, int root) {
  const auto at = neighbours(exchange);
  const bool first = at.left == root, last = exchange.rank() == root;
  const auto element = size_of(type);
  const auto elements = buffer.size() / element;
  const auto pieces = pieces_of(elements, exchange.piece_bytes() / element);
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto range = cut(elements, pieces, i);
    const auto bytes = range.count() * element;
    auto* const own = buffer.data() + range.begin * element;
    const auto* came = first ? nullptr : TRY(exchange.receive(at.left, i, bytes));
    auto* const target = last ? own : TRY(exchange.claim(at.right));
    if (first)
      copy_bytes(target, own, bytes);
    else
      combine(target, came, own, range.count(), type, op);
    if (last)
      finish(own, range.count(), type, op, exchange.size());
    else
      exchange.publish(at.right, i, bytes);
    if (!first) exchange.release(at.left);
  }
  return {};
}

}  // namespace lockstep
