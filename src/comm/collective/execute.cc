#include "comm/collective/execute.h"

#include <cstring>

#include "comm/algorithm/execute_plan.h"
#include "comm/algorithm/host/host_copy.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/host/host_reduce.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// A group of one: its input is its output. (An average over one divides by one.)
Result<void> execute_alone(const CollectiveCall& call) {
  if (!call.input.empty() && !call.output.empty())
    std::memmove(call.output.data(), call.input.data(), call.output.size());
  return {};
}

Result<void> execute_in_host(HostGroup& host, const CollectiveCall& call) {
  switch (call.operation()) {
    case Operation::all_reduce:
      return host_all_reduce(host, call);
    case Operation::reduce:
      return host_reduce(host, call);
    case Operation::reduce_scatter:
      return host_reduce_scatter(host, call);
    case Operation::barrier:
      return host.enter_inline(call.header, {}, 0);
    default:
      return host_copy(host, call);
  }
}

}  // namespace

Result<void> execute(MessageExchange& exchange, const CollectiveCall& call, PlanChooser& chooser) {
  if (exchange.size() == 1) return execute_alone(call);
  auto* const host = exchange.host_group();
  const bool in_host = host != nullptr && host->size() <= kReductionOperands &&
                       static_cast<int>(host->size()) == exchange.size();
  auto done =
      in_host ? execute_in_host(*host, call)
              : execute_plan(chooser.plan_for(call.operation(), call.header.bytes), exchange, call);
  if (host != nullptr) host->leave(done.has_value());
  return done;
}

}  // namespace lockstep::comm
