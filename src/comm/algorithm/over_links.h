// The collectives that have several algorithms, by the algorithm's name. It must be one of theirs.
#pragma once

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/parts.h"
#include "comm/reduction/types.h"

namespace lockstep {

Result<void> all_reduce_over_links(Algorithm algorithm, Exchange& exchange, Parts& parts,
                                   DataType type, ReduceOp op);
Result<void> broadcast_over_links(Algorithm algorithm, Exchange& exchange, Parts& parts, int root);

}  // namespace lockstep
