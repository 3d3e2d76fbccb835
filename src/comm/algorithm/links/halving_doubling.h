// All-reduce by recursive halving and doubling (Rabenseifner 2004). n ranks, S bytes, in place; p
// is the largest power of two up to n. Recursive halving reduces: in round k, ranks 2^k apart split
// the range that both still reduce. Each sends the other's half and adds the half that it receives.
// After log2 p rounds each has S / p of the result. Recursive doubling gathers: the same rounds in
// reverse.
//   Steps: 2 log2 p; 2 more if n is no power of two (power_of_two_ranks.h).
//   Bytes sent by each of the p: 2 (p - 1) / p * S (S divisible by p elements), the least possible;
//         by the proxy of an extra rank S more; by an extra rank S.
//   Bits: an element is reduced by one rank in each round, the sum of the lower ring indices first.
//         So all ranks have the same bits, which are also those of recursive doubling. 16-bit
//         floats are rounded after each round.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {

Result<void> halving_doubling_all_reduce(MessageExchange& exchange, BufferParts& parts,
                                         DataType type, ReduceOp op);

}  // namespace lockstep::comm
