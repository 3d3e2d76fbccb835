#include "comm/algorithm/hierarchical_all_reduce.h"

#include <cstddef>

#include "comm/algorithm/host_slices.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/over_links.h"
#include "comm/algorithm/parts.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// Ranks that lead nothing follow the order of fill and spread that all algorithms but the trees
// keep (parts.h).
Slicing slicing_of(std::size_t bytes, const GroupShape& group, Algorithm between) {
  auto slicing = slicing_for(bytes, group);
  if (between == Algorithm::double_tree && !group.even()) slicing.parts = 1;
  return slicing;
}

// A leader's slice.
class ReducedSlice : public Parts {
 public:
  ReducedSlice(HostSlices& slices, const Call& call, const Slicing& slicing, int ranks)
      : Parts(call.output.subspan(slices.own_slice().begin, slices.own_slice().count()),
              size_of(call.type()), slicing.parts,
              slice(call.output.size(), slicing.leaders, 0).count()),
        slices_(slices),
        call_(call),
        ranks_(ranks) {}

  Result<void> fill(std::size_t part) override {
    return slices_.reduce(part, call_.type(), call_.reduce());
  }
  Result<void> spread(std::size_t part) override {
    finish(at(range(part).begin), range(part).count(), call_.type(), call_.reduce(), ranks_);
    return slices_.spread(part);
  }

 private:
  HostSlices& slices_;
  const Call& call_;
  const int ranks_;  // of the group
};

Result<void> lead(Exchange& exchange, HostSlices& slices, const Call& call, Algorithm between,
                  const Slicing& slicing) {
  const auto leaders = lane_of(exchange, slices.leader());
  SubExchange others(exchange, leaders);
  ReducedSlice slice(slices, call, slicing, exchange.size());
  return all_reduce_over_links(between, others, slice, call.type(), partial(call.reduce()));
}

Result<void> follow(HostSlices& slices, const Call& call, std::size_t parts) {
  TRY(slices.reduce(0, call.type(), call.reduce()));
  for (std::size_t part = 0; part < parts; ++part) {
    if (part + 1 < parts) TRY(slices.reduce(part + 1, call.type(), call.reduce()));
    TRY(slices.spread(part));
  }
  return {};
}

}  // namespace

Result<void> hierarchical_all_reduce(Exchange& exchange, const Call& call, Algorithm between) {
  const auto slicing = slicing_of(call.output.size(), shape_of(exchange.hosts()), between);
  HostSlices slices(exchange.host(), call.header, call.output, size_of(call.type()), slicing);
  TRY(slices.enter());
  TRY(slices.leads() ? lead(exchange, slices, call, between, slicing)
                     : follow(slices, call, slicing.parts));
  return slices.leave();
}

}  // namespace lockstep
