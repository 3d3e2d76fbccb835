#include "comm/algorithm/hierarchical/hierarchical_all_reduce.h"

#include <cstddef>

#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_slices.h"
#include "comm/algorithm/over_links.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// Ranks that are not leaders follow the order of before_exchange() and after_exchange() that all
// algorithms but the trees keep (buffer_parts.h).
Slicing slicing_of(std::size_t bytes, const GroupShape& group, Algorithm between) {
  auto slicing = slicing_for(bytes, group);
  if (between == Algorithm::double_tree && !group.is_uniform()) slicing.parts = 1;
  return slicing;
}

// A leader's slice.
class ReducedSlice : public BufferParts {
 public:
  ReducedSlice(HostSlices& slices, const CollectiveCall& call, const Slicing& slicing, int ranks)
      : BufferParts(call.output.subspan(slices.own_slice().begin, slices.own_slice().count()),
                    size_of(call.type()), slicing.parts,
                    slice(call.output.size(), slicing.leaders, 0).count()),
        slices_(slices),
        call_(call),
        ranks_(ranks) {}

  Result<void> before_exchange(std::size_t part) override {
    return slices_.reduce(part, call_.type(), call_.reduce());
  }
  Result<void> after_exchange(std::size_t part) override {
    finish(at(range(part).begin), range(part).count(), call_.type(), call_.reduce(), ranks_);
    return slices_.all_gather_slices(part);
  }

 private:
  HostSlices& slices_;
  const CollectiveCall& call_;
  const int ranks_;  // of the group
};

Result<void> lead(MessageExchange& exchange, HostSlices& slices, const CollectiveCall& call,
                  Algorithm between, const Slicing& slicing) {
  const auto leaders = rail_ranks(exchange, slices.leader_index());
  SubgroupExchange others(exchange, leaders);
  ReducedSlice slice(slices, call, slicing, exchange.size());
  return all_reduce_over_links(between, others, slice, call.type(), partial(call.reduce()));
}

Result<void> follow(HostSlices& slices, const CollectiveCall& call, std::size_t parts) {
  TRY(slices.reduce(0, call.type(), call.reduce()));
  for (std::size_t part = 0; part < parts; ++part) {
    if (part + 1 < parts) TRY(slices.reduce(part + 1, call.type(), call.reduce()));
    TRY(slices.all_gather_slices(part));
  }
  return {};
}

}  // namespace

Result<void> hierarchical_all_reduce(MessageExchange& exchange, const CollectiveCall& call,
                                     Algorithm between) {
  const auto slicing = slicing_of(call.output.size(), shape_of(exchange.hosts()), between);
  HostSlices slices(exchange.host_group(), call.header, call.output, size_of(call.type()), slicing);
  TRY(slices.enter());
  TRY(slices.is_leader() ? lead(exchange, slices, call, between, slicing)
                         : follow(slices, call, slicing.parts));
  return slices.leave();
}

}  // namespace lockstep::comm
