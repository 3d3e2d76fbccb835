// Recursive doubling all-reduce (Thakur, Rabenseifner and Gropp 2005). n ranks, S bytes, in place;
// p the largest power of two up to n. In round k ranks 2^k apart send each other all that they have
// and add it.
//   Steps: log2 p; 2 more if n is no power of two (fold.h). Bytes sent by each of the p: S log2 p,
//   by the keeper of an extra rank S more; by an extra rank S. For little data: the fewest steps.
// Bits: in each round both ranks add the sum of the lower places and that of the higher ones in
// this order, so all ranks have the same bits, and those are the bits that halving and doubling has
// (halving_doubling.h). 16-bit floats are rounded after each round.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> recursive_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                           ReduceOp op);

}  // namespace lockstep
