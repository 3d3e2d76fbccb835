#include "comm/algorithm/hierarchical_reduce.h"

#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "comm/algorithm/copy.h"
#include "comm/algorithm/double_tree.h"
#include "comm/algorithm/host_slices.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/parts.h"
#include "comm/algorithm/ring.h"
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
  const auto longest = slice(call.output.size(), slicing.leaders, 0).count();
  const auto room = chain_piece_bytes(longest, exchange.hosts().size(), exchange.piece_bytes());
  slicing.parts = pieces_of(longest / element, room / element);
  return slicing;
}

// What both ways share: leaders with a slice each, those who follow them, and the root to whom all
// goes.
class SliceToRoot {
 public:
  SliceToRoot(Exchange& exchange, const Call& call, const Slicing& slicing)
      : call_(call),
        ranks_(exchange.size()),
        element_(size_of(call.type())),
        root_(where_is(exchange.hosts(), call.root())),
        at_root_(where_is(exchange.hosts(), exchange.rank()).host == root_.host),
        slicing_(slicing),
        slices_(exchange.host(), call.header, call.output, element_, slicing_,
                at_root_ ? root_.place : 0) {}
  virtual ~SliceToRoot() = default;

  Result<void> run(Exchange& exchange) {
    TRY(slices_.enter());
    TRY(slices_.leads() ? lead(exchange) : follow());
    return slices_.leave();
  }

 protected:
  virtual Result<void> lead(Exchange& exchange) = 0;
  virtual Result<void> follow() = 0;

  std::vector<int> own_leaders(const Exchange& exchange) const {
    return lane_from(exchange, root_, slices_.leader());
  }

  const Call& call_;
  const int ranks_;  // of the group
  const std::size_t element_;
  const HostPlace root_;
  const bool at_root_;  // this rank is on the root's host
  const Slicing slicing_;
  HostSlices slices_;
  std::vector<std::byte> scratch_;  // where what this host has reduced does not lie in its place
};

// By a chain, a piece at a time.
class SliceInPieces : public SliceToRoot, public ReducedPieces {
 public:
  SliceInPieces(Exchange& exchange, const Call& call)
      : SliceToRoot(exchange, call, slicing_of(exchange, call)) {}

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
  Result<void> lead(Exchange& exchange) override {
    if (exchange.host() != nullptr) scratch_.resize(elements(0) * element_);
    const auto leaders = own_leaders(exchange);
    SubExchange others(exchange, leaders);
    return ring_reduce_pieces(others, *this, call_.type(), partial(call_.reduce()),
                              leaders[root_.host]);
  }

  Result<void> follow() override {
    for (std::size_t piece = 0; piece < count(); ++piece) {
      TRY(share(piece));
      if (at_root_) TRY(slices_.hand(piece, root_.place, nullptr));
    }
    return {};
  }
};

// By trees, to which a piece's sum comes back once more: a leader keeps its slice.
class SliceByTrees : public SliceToRoot {
 public:
  SliceByTrees(Exchange& exchange, const Call& call)
      : SliceToRoot(exchange, call, slicing_for(call.output.size(), shape_of(exchange.hosts()))) {}

 private:
  // What its host has reduced of a leader's slice.
  class KeptSlice : public Parts {
   public:
    KeptSlice(SliceByTrees& by_trees, std::span<std::byte> kept, std::size_t longest)
        : Parts(kept, by_trees.element_, by_trees.slicing_.parts, longest), by_trees_(by_trees) {}
    Result<void> fill(std::size_t part) override {
      return by_trees_.share(part, at(range(part).begin));
    }

   private:
    SliceByTrees& by_trees_;
  };

  Result<void> share(std::size_t part, std::byte* to) {
    TRY(slices_.reduce_aside(part, call_.type(), call_.reduce(), to));
    return {};
  }

  Result<void> lead(Exchange& exchange) override {
    const auto own = slices_.own_slice();
    kept_ = call_.output.subspan(own.begin, own.count());
    if (exchange.host() != nullptr) {
      scratch_.resize(own.count());
      kept_ = scratch_;
    }
    const auto leaders = own_leaders(exchange);
    SubExchange others(exchange, leaders);
    KeptSlice slice(*this, kept_,
                    lockstep::slice(call_.output.size(), slicing_.leaders, 0).count());
    TRY(double_tree_reduce(others, slice, call_.type(), partial(call_.reduce()),
                           leaders[root_.host]));
    return hand_all();
  }

  Result<void> follow() override {
    for (std::size_t part = 0; part < slicing_.parts; ++part) TRY(share(part, nullptr));
    return hand_all();
  }

  // To the root, when its host's leaders have all of it.
  Result<void> hand_all() {
    for (std::size_t part = 0; at_root_ && part < slicing_.parts; ++part) TRY(hand(part));
    return {};
  }
  Result<void> hand(std::size_t part) {
    if (!slices_.leads()) return slices_.hand(part, root_.place, nullptr);
    const auto range = cut(kept_.size() / element_, slicing_.parts, part);
    auto* const kept = kept_.data() + range.begin * element_;
    auto* const made = slices_.room_for(part, root_.place, kept);
    if (made != kept) copy_bytes(made, kept, range.count() * element_);
    finish(made, range.count(), call_.type(), call_.reduce(), ranks_);
    return slices_.hand(part, root_.place, made);
  }

  std::span<std::byte> kept_;  // scratch, or where this rank is alone its own slice
};

}  // namespace

Result<void> hierarchical_reduce(Exchange& exchange, const Call& call, Algorithm between) {
  if (between == Algorithm::double_tree) return SliceByTrees(exchange, call).run(exchange);
  LS_CHECK(between == Algorithm::ring);
  return SliceInPieces(exchange, call).run(exchange);
}

}  // namespace lockstep
