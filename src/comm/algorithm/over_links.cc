#include "comm/algorithm/over_links.h"

#include "base/check.h"
#include "comm/algorithm/links/double_tree.h"
#include "comm/algorithm/links/flat_all_reduce.h"
#include "comm/algorithm/links/halving_doubling.h"
#include "comm/algorithm/links/recursive_doubling.h"
#include "comm/algorithm/ring/ring_all_reduce.h"
#include "comm/algorithm/ring/ring_broadcast.h"

namespace lockstep::comm {

Result<void> all_reduce_over_links(Algorithm algorithm, MessageExchange& exchange,
                                   BufferParts& parts, DataType type, ReduceOp op) {
  switch (algorithm) {
    case Algorithm::flat:
      return flat_all_reduce(exchange, parts, type, op);
    case Algorithm::ring:
      return ring_all_reduce(exchange, parts, type, op);
    case Algorithm::recursive_doubling:
      return recursive_doubling_all_reduce(exchange, parts, type, op);
    case Algorithm::halving_doubling:
      return halving_doubling_all_reduce(exchange, parts, type, op);
    case Algorithm::double_tree:
      return double_tree_all_reduce(exchange, parts, type, op);
    default:
      LS_CHECK(false, "{} does not reduce", text(algorithm));
      return {};
  }
}

Result<void> broadcast_over_links(Algorithm algorithm, MessageExchange& exchange,
                                  BufferParts& parts, int root) {
  if (algorithm == Algorithm::double_tree) return double_tree_broadcast(exchange, parts, root);
  LS_CHECK(algorithm == Algorithm::ring);
  return ring_broadcast(exchange, parts, root);
}

}  // namespace lockstep::comm
