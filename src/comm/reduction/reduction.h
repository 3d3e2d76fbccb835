// The arithmetic of reductions: many sources, many destinations, one pass over memory.
//
// An element's result has the same bits on every processor and with every instruction set:
// - sources are read strictly in their order; nothing is fused or reassociated;
// - 16-bit floats are computed in 32 bits over all sources and rounded once, to nearest even;
// - integers wrap around; and, or and exclusive or are bitwise;
// - a result that is NaN is always the same quiet, positive NaN without payload;
// - sum, average and product are NaN if any source is. min and max are `y < x ? y : x` and
//   `x < y ? y : x` with x from the earlier sources: NaN in the first source remains, in a later
//   one it is ignored.
#pragma once

#include <cstddef>
#include <span>

#include "comm/reduction/instruction_set.h"
#include "comm/reduction/store_mode.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

inline constexpr std::size_t kReductionOperands = 64;  // sources, and destinations, at most

// The operation is defined for the type (is_defined).
struct ReductionSpec {
  DataType type;
  ReduceOp op;
  int divisor = 1;  // of ReduceOp::average: the number of summands
  StoreMode store_mode = StoreMode::cached;
};

// destinations[k][i] = sources[0][i] op sources[1][i] op ... for each k and i < count. From 1 to
// kReductionOperands of either. A destination may be one of the sources; otherwise it overlaps
// nothing. Pointers are aligned as the type is.
void reduce(std::span<std::byte* const> destinations, std::span<const std::byte* const> sources,
            std::size_t count, const ReductionSpec& reduction);
// The same with a given instruction set, one of instruction_sets(). For tests and measurements.
void reduce_with(InstructionSet set, std::span<std::byte* const> destinations,
                 std::span<const std::byte* const> sources, std::size_t count,
                 const ReductionSpec& reduction);

// The operation before finish(): an average is summed first.
inline ReduceOp partial(ReduceOp op) { return op == ReduceOp::average ? ReduceOp::sum : op; }

// Copies one source to all destinations (1 to kReductionOperands), which it does not overlap.
void copy_to_all(std::span<std::byte* const> destinations, const std::byte* source,
                 std::size_t bytes, StoreMode stores);

// For algorithms that receive one source after the other; 16-bit floats are rounded at each step.
// out[i] = a[i] op b[i] for `count` elements. out may be a or b; otherwise they do not overlap. The
// average adds; finish() divides.
void combine(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
             DataType type, ReduceOp op);
// The last step of a reduction over `ranks`: divides by it for the average.
void finish(std::byte* data, std::size_t count, DataType type, ReduceOp op, int ranks);

}  // namespace lockstep::comm
