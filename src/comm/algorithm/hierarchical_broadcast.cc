#include "comm/algorithm/hierarchical_broadcast.h"

#include <cstddef>
#include <span>

#include "comm/algorithm/host_slices.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/over_links.h"
#include "comm/algorithm/parts.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"

namespace lockstep {
namespace {

class Broadcast {
 public:
  Broadcast(Exchange& exchange, const Call& call)
      : exchange_(exchange),
        call_(call),
        source_(where_is(exchange.hosts(), call.root())),
        slicing_(slicing_for(call.output.size(), shape_of(exchange.hosts()))),
        at_source_(where_is(exchange.hosts(), exchange.rank()).host == source_.host),
        slices_(exchange.host(), call.header, call.output, 1, slicing_,
                at_source_ ? source_.place : 0) {}

  Result<void> run(Algorithm between) {
    TRY(slices_.enter());
    TRY(slices_.leads() ? lead(between) : follow());
    return slices_.leave();
  }

 private:
  // A leader's slice.
  class Slice : public Parts {
   public:
    explicit Slice(Broadcast& broadcast)
        : Parts(broadcast.own_slice(), 1, broadcast.slicing_.parts,
                slice(broadcast.call_.output.size(), broadcast.slicing_.leaders, 0).count()),
          broadcast_(broadcast) {}
    // Leaders on the root's host are roots of their slices' broadcasts, which fill; the others do
    // not.
    Result<void> fill(std::size_t part) override { return broadcast_.share(part); }
    Result<void> spread(std::size_t part) override {
      return broadcast_.at_source_ ? Result<void>() : broadcast_.share(part);
    }

   private:
    Broadcast& broadcast_;
  };

  std::span<std::byte> own_slice() const {
    return call_.output.subspan(slices_.own_slice().begin, slices_.own_slice().count());
  }
  Result<void> share(std::size_t part) {
    return at_source_ ? slices_.give(part, source_.place) : slices_.spread(part);
  }

  Result<void> lead(Algorithm between) {
    const auto leaders = lane_from(exchange_, source_, slices_.leader());
    SubExchange others(exchange_, leaders);
    Slice slice(*this);
    return broadcast_over_links(between, others, slice, leaders[source_.host]);
  }

  Result<void> follow() {
    for (std::size_t part = 0; part < slicing_.parts; ++part) TRY(share(part));
    return {};
  }

  Exchange& exchange_;
  const Call& call_;
  const HostPlace source_;
  const Slicing slicing_;
  const bool at_source_;  // this rank is on the root's host
  HostSlices slices_;
};

}  // namespace

Result<void> hierarchical_broadcast(Exchange& exchange, const Call& call, Algorithm between) {
  return Broadcast(exchange, call).run(between);
}

}  // namespace lockstep
