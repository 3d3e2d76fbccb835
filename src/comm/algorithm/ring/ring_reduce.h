// Ring reduce: a chain along the ring that ends at the root, in pieces. n ranks, S bytes. Steps: n
// - 1 + pieces. Bytes sent by each rank but the root: S. Partial sums exist only in messages; the
// buffers of other ranks do not change.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

// The data to reduce, in pieces. All ranks have the same number of pieces of the same lengths.
class ReducedPieces {
 public:
  virtual ~ReducedPieces() = default;
  virtual std::size_t count() const = 0;
  virtual std::size_t elements(std::size_t piece) const = 0;
  // This rank's operand of the sum; valid until the next call. In ascending order.
  virtual Result<const std::byte*> share(std::size_t piece) = 0;
  // At the root: the address for the sum, which may be that of the share; and a call when it is
  // complete.
  virtual std::byte* sum(std::size_t piece) = 0;
  virtual Result<void> done(std::size_t piece) = 0;
};

// The sum of an average is not divided.
Result<void> ring_reduce_pieces(MessageExchange& exchange, ReducedPieces& pieces, DataType type,
                                ReduceOp op, int root);
Result<void> ring_reduce(MessageExchange& exchange, std::span<std::byte> buffer, DataType type,
                         ReduceOp op, int root);

}  // namespace lockstep::comm
