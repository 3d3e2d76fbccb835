// All-reduce by recursive halving and doubling (Rabenseifner 2004). n ranks, S bytes, in place; p
// the largest power of two up to n. Recursive halving reduces: in round k ranks 2^k apart share
// what they both still work on, each sends the other's half and adds what comes to its own; after
// log2 p rounds each has S / p of the result. Recursive doubling gathers: the same rounds
// backwards.
//   Steps: 2 log2 p; 2 more if n is no power of two (fold.h). Bytes sent by each of the p:
//   2 (p - 1) / p * S (S divisible by p elements), the least possible; by the keeper of an extra
//   rank S more; by an extra rank S.
// Bits: an element is reduced by one rank in each round, the sum of the lower places first; so all
// ranks have the same bits, and those that recursive doubling has. 16-bit floats are rounded after
// each round.
#pragma once

#include "base/result.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> halving_doubling_all_reduce(Exchange& exchange, Parts& parts, DataType type,
                                         ReduceOp op);

}  // namespace lockstep
