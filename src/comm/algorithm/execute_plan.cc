#include "comm/algorithm/execute_plan.h"

#include "base/check.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/hierarchical/hierarchical_all_gather.h"
#include "comm/algorithm/hierarchical/hierarchical_all_reduce.h"
#include "comm/algorithm/hierarchical/hierarchical_barrier.h"
#include "comm/algorithm/hierarchical/hierarchical_broadcast.h"
#include "comm/algorithm/hierarchical/hierarchical_reduce.h"
#include "comm/algorithm/hierarchical/hierarchical_reduce_scatter.h"
#include "comm/algorithm/links/dissemination_barrier.h"
#include "comm/algorithm/links/double_tree.h"
#include "comm/algorithm/links/pairwise.h"
#include "comm/algorithm/over_links.h"
#include "comm/algorithm/ring/ring_all_gather.h"
#include "comm/algorithm/ring/ring_reduce.h"
#include "comm/algorithm/ring/ring_reduce_scatter.h"
#include "comm/reduction/types.h"

namespace lockstep::comm {
namespace {

Result<void> execute_hierarchical(Algorithm between, MessageExchange& exchange,
                                  const CollectiveCall& call) {
  switch (call.operation()) {
    case Operation::all_reduce:
      return hierarchical_all_reduce(exchange, call, between);
    case Operation::broadcast:
      return hierarchical_broadcast(exchange, call, between);
    case Operation::reduce:
      return hierarchical_reduce(exchange, call, between);
    case Operation::all_gather:
      return hierarchical_all_gather(exchange, call);
    case Operation::reduce_scatter:
      return hierarchical_reduce_scatter(exchange, call);
    default:
      return hierarchical_barrier(exchange, call);
  }
}

Result<void> reduce_over_links(Algorithm algorithm, MessageExchange& exchange, BufferParts& whole,
                               const CollectiveCall& call) {
  if (algorithm == Algorithm::double_tree)
    return double_tree_reduce(exchange, whole, call.type(), call.reduce(), call.root());
  return ring_reduce(exchange, call.output, call.type(), call.reduce(), call.root());
}

Result<void> execute_over_links(Algorithm algorithm, MessageExchange& exchange,
                                const CollectiveCall& call) {
  BufferParts whole(call.output, size_of(call.type()));
  switch (call.operation()) {
    case Operation::all_reduce:
      return all_reduce_over_links(algorithm, exchange, whole, call.type(), call.reduce());
    case Operation::reduce_scatter:
      return ring_reduce_scatter(exchange, call.input, call.output, call.type(), call.reduce());
    case Operation::all_gather:
      return ring_all_gather(exchange, call.input, call.output);
    case Operation::broadcast:
      return broadcast_over_links(algorithm, exchange, whole, call.root());
    case Operation::reduce:
      return reduce_over_links(algorithm, exchange, whole, call);
    case Operation::gather:
      return pairwise_gather(exchange, call.input, call.output, call.root());
    case Operation::scatter:
      return pairwise_scatter(exchange, call.input, call.output, call.root());
    case Operation::all_to_all:
      return pairwise_all_to_all(exchange, call.input, call.output);
    case Operation::barrier:
      return dissemination_barrier(exchange);
    default:
      LS_CHECK(false);  // sends are not collectives
      return {};
  }
}

}  // namespace

Result<void> execute_plan(const CallPlan& plan, MessageExchange& exchange,
                          const CollectiveCall& call) {
  return plan.hierarchical ? execute_hierarchical(plan.algorithm, exchange, call)
                           : execute_over_links(plan.algorithm, exchange, call);
}

}  // namespace lockstep::comm
