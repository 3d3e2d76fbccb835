// Recursive doubling all-reduce (Thakur, Rabenseifner and Gropp 2005). n ranks, S bytes, in place;
// p is the largest power of two up to n. In round k ranks 2^k apart send each other all their data
// and add it.
//   Steps: log2 p; 2 more if n is no power of two (power_of_two_ranks.h).
//   Bytes sent by each of the p: S log2 p, by the proxy of an extra rank S more; by an extra rank
//         S. For little data: the fewest steps.
//   Bits: in each round both ranks add the sum of the lower ring indices and that of the higher
//         ones in this order. So all ranks have the same bits, which are those of halving and
//         doubling (halving_doubling.h). 16-bit floats are rounded after each round.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

Result<void> recursive_doubling_all_reduce(MessageExchange& exchange, BufferParts& parts,
                                           DataType type, ReduceOp op);

}  // namespace lockstep::comm
