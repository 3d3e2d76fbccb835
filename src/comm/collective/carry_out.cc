#include "comm/collective/carry_out.h"

#include <cstring>

#include "comm/algorithm/by_plan.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/host_move.h"
#include "comm/algorithm/host_reduce.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

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

}  // namespace

Result<void> carry_out(Exchange& exchange, const Call& call, Chooser& chooser) {
  if (exchange.size() == 1) return carry_out_alone(call);
  auto* const host = exchange.host();
  const bool in_host = host != nullptr && host->size() <= kReductionOperands &&
                       static_cast<int>(host->size()) == exchange.size();
  if (in_host) return carry_out_in_host(*host, call);
  return carry_out_by(chooser.plan_for(call.operation(), call.header.bytes), exchange, call);
}

}  // namespace lockstep
