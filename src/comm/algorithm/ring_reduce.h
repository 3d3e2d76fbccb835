// Ring reduce: a chain along the ring that ends at the root, in pieces. n ranks, S bytes.
//   Steps: n - 1 + pieces. Bytes sent by each rank but the root: S. Partial sums live only on their
//   way; the buffers of other ranks stay as they are.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/reduction/types.h"

namespace lockstep {

// What is reduced, in pieces: as many, and of the same lengths, on all ranks.
class ReducedPieces {
 public:
  virtual ~ReducedPieces() = default;
  virtual std::size_t count() const = 0;
  virtual std::size_t elements(std::size_t piece) const = 0;
  // What goes into the sum from here; stays until the next is asked for. In ascending order.
  virtual Result<const std::byte*> share(std::size_t piece) = 0;
  // At the root: where the sum goes, which may be where the share lies; and that it is there.
  virtual std::byte* sum(std::size_t piece) = 0;
  virtual Result<void> done(std::size_t piece) = 0;
};

// The sum of an average is not divided.
Result<void> ring_reduce_pieces(Exchange& exchange, ReducedPieces& pieces, DataType type,
                                ReduceOp op, int root);
Result<void> ring_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                         ReduceOp op, int root);

}  // namespace lockstep
