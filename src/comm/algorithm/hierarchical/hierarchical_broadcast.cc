#include "comm/algorithm/hierarchical/hierarchical_broadcast.h"

#include <cstddef>
#include <span>

#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_slices.h"
#include "comm/algorithm/over_links.h"

namespace lockstep::comm {
namespace {

class HierarchicalBroadcast {
 public:
  HierarchicalBroadcast(MessageExchange& exchange, const CollectiveCall& call)
      : exchange_(exchange),
        call_(call),
        root_(locate_rank(exchange.hosts(), call.root())),
        slicing_(slicing_for(call.output.size(), shape_of(exchange.hosts()))),
        on_root_host_(locate_rank(exchange.hosts(), exchange.rank()).host == root_.host),
        slices_(exchange.host_group(), call.header, call.output, 1, slicing_,
                on_root_host_ ? root_.local_rank : 0) {}

  Result<void> run(Algorithm between) {
    TRY(slices_.enter());
    TRY(slices_.is_leader() ? lead(between) : follow());
    return slices_.leave();
  }

 private:
  // A leader's slice.
  class Slice : public BufferParts {
   public:
    explicit Slice(HierarchicalBroadcast& broadcast)
        : BufferParts(broadcast.own_slice(), 1, broadcast.slicing_.parts,
                      slice(broadcast.call_.output.size(), broadcast.slicing_.leaders, 0).count()),
          broadcast_(broadcast) {}
    // Leaders on the root's host are roots of their slices' broadcasts, and only they do this step.
    Result<void> before_exchange(std::size_t part) override { return broadcast_.share(part); }
    Result<void> after_exchange(std::size_t part) override {
      return broadcast_.on_root_host_ ? Result<void>() : broadcast_.share(part);
    }

   private:
    HierarchicalBroadcast& broadcast_;
  };

  std::span<std::byte> own_slice() const {
    return call_.output.subspan(slices_.own_slice().begin, slices_.own_slice().count());
  }
  Result<void> share(std::size_t part) {
    return on_root_host_ ? slices_.broadcast_part(part, root_.local_rank)
                         : slices_.all_gather_slices(part);
  }

  Result<void> lead(Algorithm between) {
    const auto leaders = rail_ranks_from_root(exchange_, root_, slices_.leader_index());
    SubgroupExchange others(exchange_, leaders);
    Slice slice(*this);
    return broadcast_over_links(between, others, slice, leaders[root_.host]);
  }

  Result<void> follow() {
    for (std::size_t part = 0; part < slicing_.parts; ++part) TRY(share(part));
    return {};
  }

  MessageExchange& exchange_;
  const CollectiveCall& call_;
  const HostLocation root_;
  const Slicing slicing_;
  const bool on_root_host_;  // this rank is on the root's host
  HostSlices slices_;
};

}  // namespace

Result<void> hierarchical_broadcast(MessageExchange& exchange, const CollectiveCall& call,
                                    Algorithm between) {
  return HierarchicalBroadcast(exchange, call).run(between);
}

}  // namespace lockstep::comm
