#include "comm/collective/carry_out.h"

#include <cstring>

#include "base/check.h"
#include "comm/algorithm/dissemination_barrier.h"
#include "comm/algorithm/flat_all_reduce.h"
#include "comm/algorithm/hierarchical_all_reduce.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/host_move.h"
#include "comm/algorithm/host_reduce.h"
#include "comm/algorithm/pairwise.h"
#include "comm/algorithm/ring_all_gather.h"
#include "comm/algorithm/ring_all_reduce.h"
#include "comm/algorithm/ring_broadcast.h"
#include "comm/algorithm/ring_reduce.h"
#include "comm/algorithm/ring_reduce_scatter.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// With more ranks, n - 1 messages from everybody to everybody cost more than the ring's steps.
constexpr int kFlatRanks = 16;

// A group of one: its input is its output. (An average over one divides by one.)
Result<void> carry_out_alone(const Call& call) {
  if (!call.input.empty() && !call.output.empty())
    std::memmove(call.output.data(), call.input.data(), call.output.size());
  return {};
}

Result<void> carry_out_in_host(HostGroup& host, const Call& call) {
  switch (call.operation()) {
    case Operation::all_reduce:
      return host_all_reduce(host, call);
    case Operation::reduce:
      return host_reduce(host, call);
    case Operation::reduce_scatter:
      return host_reduce_scatter(host, call);
    case Operation::barrier:
      return host.bring(call.header, {}, 0);
    default:
      return host_move(host, call);
  }
}

Result<void> carry_out_over_links(Exchange& exchange, const Call& call) {
  switch (call.operation()) {
    case Operation::all_reduce:
      if (call.output.size() <= kFlatBytes && exchange.size() <= kFlatRanks)
        return flat_all_reduce(exchange, call.output, call.type(), call.reduce());
      if (fits_hierarchical(exchange)) return hierarchical_all_reduce(exchange, call);
      return ring_all_reduce(exchange, call.output, call.type(), call.reduce());
    case Operation::reduce_scatter:
      return ring_reduce_scatter(exchange, call.input, call.output, call.type(), call.reduce());
    case Operation::all_gather:
      return ring_all_gather(exchange, call.input, call.output);
    case Operation::broadcast:
      return ring_broadcast(exchange, call.output, call.root());
    case Operation::reduce:
      return ring_reduce(exchange, call.output, call.type(), call.reduce(), call.root());
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

Result<void> carry_out(Exchange& exchange, const Call& call) {
  if (exchange.size() == 1) return carry_out_alone(call);
  auto* const host = exchange.host();
  const bool in_host = host != nullptr && host->size() <= kReductionOperands &&
                       static_cast<int>(host->size()) == exchange.size();
  return in_host ? carry_out_in_host(*host, call) : carry_out_over_links(exchange, call);
}

}  // namespace lockstep
