// The arithmetic of reductions, as plain loops that the compiler vectorises. 16-bit floats are
// computed in 32 bits and rounded to nearest even. Integers wrap around.
#pragma once

#include <cstddef>

#include "comm/reduction/types.h"

namespace lockstep {

// out[i] = a[i] op b[i] for `count` elements. out may be a or b; otherwise they do not overlap. The
// average adds; finish() divides.
void combine(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
             DataType type, ReduceOp op);
// The last step of a reduction over `ranks`: divides by it for the average.
void finish(std::byte* data, std::size_t count, DataType type, ReduceOp op, int ranks);

}  // namespace lockstep
