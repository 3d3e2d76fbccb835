#include "comm/algorithm/hierarchical_reduce.h"

#include <cstddef>
#include <vector>

#include "comm/algorithm/host_slices.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/ring_reduce.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// A part is a piece that travels, since it is made when it does.
Slicing slicing_of(const Exchange& exchange, const Call& call) {
  auto slicing = slicing_for(call.output.size(), shape_of(exchange.hosts()));
  if (call.output.size() <= HostGroup::kBringBytes) return slicing;
  const auto element = size_of(call.type());
  const auto longest = slice(call.output.size(), slicing.leaders, 0).count() / element;
  slicing.parts = pieces_of(longest, exchange.piece_bytes() / element);
  return slicing;
}

// A leader's slice, and what those who follow do for it.
class SliceInPieces : public ReducedPieces {
 public:
  SliceInPieces(Exchange& exchange, const Call& call)
      : call_(call),
        ranks_(exchange.size()),
        element_(size_of(call.type())),
        root_(where_is(exchange.hosts(), call.root())),
        at_root_(where_is(exchange.hosts(), exchange.rank()).host == root_.host),
        slicing_(slicing_of(exchange, call)),
        slices_(exchange.host(), call.header, call.output, element_, slicing_,
                at_root_ ? root_.place : 0) {}

  Result<void> run(Exchange& exchange) {
    TRY(slices_.enter());
    TRY(slices_.leads() ? lead(exchange) : follow());
    return slices_.leave();
  }

  std::size_t count() const override { return slicing_.parts; }
  std::size_t elements(std::size_t piece) const override {
    return cut(slices_.own_slice().count() / element_, slicing_.parts, piece).count();
  }
  Result<const std::byte*> share(std::size_t piece) override {
    return slices_.reduce_aside(piece, call_.type(), call_.reduce(), scratch_.data());
  }
  std::byte* sum(std::size_t piece) override {
    return slices_.room_for(piece, root_.place, scratch_.data());
  }
  Result<void> done(std::size_t piece) override {
    auto* const made = sum(piece);
    finish(made, elements(piece), call_.type(), call_.reduce(), ranks_);
    return slices_.hand(piece, root_.place, made);
  }

 private:
  Result<void> lead(Exchange& exchange) {
    if (exchange.host() != nullptr) scratch_.resize(elements(0) * element_);
    const auto leaders = lane_from(exchange, root_, slices_.leader());
    SubExchange others(exchange, leaders);
    return ring_reduce_pieces(others, *this, call_.type(), partial(call_.reduce()),
                              leaders[root_.host]);
  }

  Result<void> follow() {
    for (std::size_t piece = 0; piece < count(); ++piece) {
      TRY(share(piece));
      if (at_root_) TRY(slices_.hand(piece, root_.place, nullptr));
    }
    return {};
  }

  const Call& call_;
  const int ranks_;  // of the group
  const std::size_t element_;
  const HostPlace root_;
  const bool at_root_;  // this rank is on the root's host
  const Slicing slicing_;
  HostSlices slices_;
  std::vector<std::byte> scratch_;  // of a piece
};

}  // namespace

Result<void> hierarchical_reduce(Exchange& exchange, const Call& call) {
  return SliceInPieces(exchange, call).run(exchange);
}

}  // namespace lockstep
