#include "comm/algorithm/ring/ring_reduce.h"

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

class BufferInPieces : public ReducedPieces {
 public:
  BufferInPieces(const MessageExchange& exchange, std::span<std::byte> buffer, DataType type,
                 ReduceOp op)
      : buffer_(buffer.data()),
        type_(type),
        op_(op),
        ranks_(exchange.size()),
        elements_(buffer.size() / size_of(type)),
        count_(piece_count(elements_, chain_piece_bytes(buffer.size(), exchange.ring().size(),
                                                        exchange.piece_bytes()) /
                                          size_of(type))) {}

  std::size_t count() const override { return count_; }
  std::size_t elements(std::size_t piece) const override { return range(piece).count(); }
  Result<const std::byte*> share(std::size_t piece) override { return at(piece); }
  std::byte* sum(std::size_t piece) override { return at(piece); }
  Result<void> done(std::size_t piece) override {
    finish(at(piece), elements(piece), type_, op_, ranks_);
    return {};
  }

 private:
  ElementRange range(std::size_t piece) const { return cut(elements_, count_, piece); }
  std::byte* at(std::size_t piece) const { return buffer_ + range(piece).begin * size_of(type_); }

  std::byte* const buffer_;
  const DataType type_;
  const ReduceOp op_;
  const int ranks_;
  const std::size_t elements_, count_;
};

}  // namespace

// A rank waits only for data from its left neighbour and for a free slot to its right one. The
// chain has an end, so there is no cycle of waiting ranks.
Result<void> ring_reduce_pieces(MessageExchange& exchange, ReducedPieces& pieces, DataType type,
                                ReduceOp op, int root) {
  const auto at = ring_neighbours(exchange);
  const bool first = at.left == root, last = exchange.rank() == root;
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    const auto count = pieces.elements(i), bytes = count * size_of(type);
    const auto* own = TRY(pieces.share(i));
    const auto* received = first ? nullptr : TRY(exchange.receive(at.left, i, bytes));
    auto* const target = last ? pieces.sum(i) : TRY(exchange.claim(at.right));
    if (first)
      copy_bytes(target, own, bytes);
    else
      combine(target, received, own, count, type, op);
    if (!first) exchange.release(at.left);
    if (last)
      TRY(pieces.done(i));
    else
      exchange.publish(at.right, i, bytes);
  }
  return {};
}

Result<void> ring_reduce(MessageExchange& exchange, std::span<std::byte> buffer, DataType type,
                         ReduceOp op, int root) {
  BufferInPieces pieces(exchange, buffer, type, op);
  return ring_reduce_pieces(exchange, pieces, type, op, root);
}

}  // namespace lockstep::comm
