#include "comm/algorithm/hierarchical/hierarchical_reduce.h"

#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "comm/algorithm/exchange/buffer_parts.h"
#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_slices.h"
#include "comm/algorithm/links/double_tree.h"
#include "comm/algorithm/ring/ring.h"
#include "comm/algorithm/ring/ring_reduce.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// A part is one piece of the exchange, because it is reduced just before it is sent.
Slicing slicing_of(const MessageExchange& exchange, const CollectiveCall& call) {
  auto slicing = slicing_for(call.output.size(), shape_of(exchange.hosts()));
  if (call.output.size() <= HostGroup::kInlineBytes) return slicing;
  const auto element = size_of(call.type());
  const auto longest = slice(call.output.size(), slicing.leaders, 0).count();
  const auto room = chain_piece_bytes(longest, exchange.hosts().size(), exchange.piece_bytes());
  slicing.parts = piece_count(longest / element, room / element);
  return slicing;
}

// The common base of both algorithms: leaders with a slice each, the ranks that follow a leader,
// and the root, which receives the result.
class SliceToRoot {
 public:
  SliceToRoot(MessageExchange& exchange, const CollectiveCall& call, const Slicing& slicing)
      : call_(call),
        ranks_(exchange.size()),
        element_(size_of(call.type())),
        root_(locate_rank(exchange.hosts(), call.root())),
        on_root_host_(locate_rank(exchange.hosts(), exchange.rank()).host == root_.host),
        slicing_(slicing),
        slices_(exchange.host_group(), call.header, call.output, element_, slicing_,
                on_root_host_ ? root_.local_rank : 0) {}
  virtual ~SliceToRoot() = default;

  Result<void> run(MessageExchange& exchange) {
    TRY(slices_.enter());
    TRY(slices_.is_leader() ? lead(exchange) : follow());
    return slices_.leave();
  }

 protected:
  virtual Result<void> lead(MessageExchange& exchange) = 0;
  virtual Result<void> follow() = 0;

  std::vector<int> rail_leaders(const MessageExchange& exchange) const {
    return rail_ranks_from_root(exchange, root_, slices_.leader_index());
  }

  const CollectiveCall& call_;
  const int ranks_;  // of the group
  const std::size_t element_;
  const HostLocation root_;
  const bool on_root_host_;  // this rank is on the root's host
  const Slicing slicing_;
  HostSlices slices_;
  std::vector<std::byte> scratch_;  // where the sum of this host is not computed in place
};

// By a chain, one piece at a time.
class SliceInPieces : public SliceToRoot, public ReducedPieces {
 public:
  SliceInPieces(MessageExchange& exchange, const CollectiveCall& call)
      : SliceToRoot(exchange, call, slicing_of(exchange, call)) {}

  std::size_t count() const override { return slicing_.parts; }
  std::size_t elements(std::size_t piece) const override {
    return cut(slices_.own_slice().count() / element_, slicing_.parts, piece).count();
  }
  Result<const std::byte*> share(std::size_t piece) override {
    return slices_.reduce_to_scratch(piece, call_.type(), call_.reduce(), scratch_.data());
  }
  std::byte* sum(std::size_t piece) override {
    return slices_.result_address(piece, root_.local_rank, scratch_.data());
  }
  Result<void> done(std::size_t piece) override {
    auto* const made = sum(piece);
    finish(made, elements(piece), call_.type(), call_.reduce(), ranks_);
    return slices_.gather_slices(piece, root_.local_rank, made);
  }

 private:
  Result<void> lead(MessageExchange& exchange) override {
    if (exchange.host_group() != nullptr) scratch_.resize(elements(0) * element_);
    const auto leaders = rail_leaders(exchange);
    SubgroupExchange others(exchange, leaders);
    return ring_reduce_pieces(others, *this, call_.type(), partial(call_.reduce()),
                              leaders[root_.host]);
  }

  Result<void> follow() override {
    for (std::size_t piece = 0; piece < count(); ++piece) {
      TRY(share(piece));
      if (on_root_host_) TRY(slices_.gather_slices(piece, root_.local_rank, nullptr));
    }
    return {};
  }
};

// By trees, in which a rank needs a piece's sum again later: a leader keeps its slice.
class SliceByTrees : public SliceToRoot {
 public:
  SliceByTrees(MessageExchange& exchange, const CollectiveCall& call)
      : SliceToRoot(exchange, call, slicing_for(call.output.size(), shape_of(exchange.hosts()))) {}

 private:
  // The sum of its host for a leader's slice.
  class ReducedHostSlice : public BufferParts {
   public:
    ReducedHostSlice(SliceByTrees& by_trees, std::span<std::byte> kept, std::size_t longest)
        : BufferParts(kept, by_trees.element_, by_trees.slicing_.parts, longest),
          by_trees_(by_trees) {}
    Result<void> before_exchange(std::size_t part) override {
      return by_trees_.share(part, at(range(part).begin));
    }

   private:
    SliceByTrees& by_trees_;
  };

  Result<void> share(std::size_t part, std::byte* to) {
    TRY(slices_.reduce_to_scratch(part, call_.type(), call_.reduce(), to));
    return {};
  }

  Result<void> lead(MessageExchange& exchange) override {
    const auto own = slices_.own_slice();
    host_sum_ = call_.output.subspan(own.begin, own.count());
    if (exchange.host_group() != nullptr) {
      scratch_.resize(own.count());
      host_sum_ = scratch_;
    }
    const auto leaders = rail_leaders(exchange);
    SubgroupExchange others(exchange, leaders);
    ReducedHostSlice slice(*this, host_sum_,
                           comm::slice(call_.output.size(), slicing_.leaders, 0).count());
    TRY(double_tree_reduce(others, slice, call_.type(), partial(call_.reduce()),
                           leaders[root_.host]));
    return gather_at_root();
  }

  Result<void> follow() override {
    for (std::size_t part = 0; part < slicing_.parts; ++part) TRY(share(part, nullptr));
    return gather_at_root();
  }

  // Sends to the root, after its host's leaders have all of it.
  Result<void> gather_at_root() {
    for (std::size_t part = 0; on_root_host_ && part < slicing_.parts; ++part)
      TRY(gather_part_at_root(part));
    return {};
  }
  Result<void> gather_part_at_root(std::size_t part) {
    if (!slices_.is_leader()) return slices_.gather_slices(part, root_.local_rank, nullptr);
    const auto range = cut(host_sum_.size() / element_, slicing_.parts, part);
    auto* const kept = host_sum_.data() + range.begin * element_;
    auto* const made = slices_.result_address(part, root_.local_rank, kept);
    if (made != kept) copy_bytes(made, kept, range.count() * element_);
    finish(made, range.count(), call_.type(), call_.reduce(), ranks_);
    return slices_.gather_slices(part, root_.local_rank, made);
  }

  std::span<std::byte> host_sum_;  // scratch, or the rank's own slice if it is alone on its host
};

}  // namespace

Result<void> hierarchical_reduce(MessageExchange& exchange, const CollectiveCall& call,
                                 Algorithm between) {
  if (between == Algorithm::double_tree) return SliceByTrees(exchange, call).run(exchange);
  LS_CHECK(between == Algorithm::ring);
  return SliceInPieces(exchange, call).run(exchange);
}

}  // namespace lockstep::comm
