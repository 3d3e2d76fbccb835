#include "comm/algorithm/hierarchical/hierarchical_reduce_scatter.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/host/host_staging.h"
#include "comm/algorithm/ring/ring_reduce_scatter.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

class HierarchicalReduceScatter {
 public:
  HierarchicalReduceScatter(MessageExchange& exchange, const CollectiveCall& call)
      : exchange_(exchange),
        host_(exchange.host_group()),
        call_(call),
        reduction_{call.type(), partial(call.reduce())},
        element_(size_of(call.type())),
        block_(call.output.size()),
        ranks_(host_ == nullptr ? 1 : host_->size()),
        local_rank_(host_ == nullptr ? 0 : host_->local_rank()),
        rails_(exchange.hosts()),
        share_(host_ == nullptr ? 0 : std::min(block_, exchange.piece_bytes())) {}

  Result<void> run() {
    TRY(enter());
    for (round_ = 0; round_ < rails_.rounds(); ++round_) TRY(run_rail());
    finish(call_.output.data(), block_ / element_, call_.type(), call_.reduce(), exchange_.size());
    return path_ == Path::zero_copy ? host_->barrier() : Result<void>();
  }

 private:
  enum class Path { single_rank, inline_copy, zero_copy, staged };

  Result<void> enter() {
    if (host_ == nullptr) return {};
    const auto bytes = call_.input.size();
    path_ = bytes <= HostGroup::kInlineBytes ? Path::inline_copy : Path::zero_copy;
    TRY(path_ == Path::inline_copy ? host_->enter_inline(call_.header, call_.input, bytes)
                                   : host_->enter_zero_copy(call_.header, call_.input, {}));
    for (std::size_t p = 0; p < ranks_; ++p) {
      inputs_[p] = path_ == Path::inline_copy ? host_->inline_data(p) : host_->input(p, bytes);
      if (inputs_[p] == nullptr) path_ = Path::staged;
      if (path_ == Path::staged) return {};
    }
    inputs_[local_rank_] = call_.input.data();
    return {};
  }

  // A rank that has no rail in a round still takes part in its host's steps.
  Result<void> run_rail() {
    const auto rail = rails_.rail(round_, local_rank_, ranks_);
    const auto members = rails_.members(rail.value_or(local_rank_));
    SubgroupExchange others(exchange_, members);
    const auto share = [this](std::size_t host, ElementRange range) { return reduce(host, range); };
    if (!rail) return compute_shares(others, block_, ShareFunction(share), call_.type());
    std::vector<bool> has_block;
    for (const int owner : rails_.owners(*rail)) has_block.push_back(owner != BlockRails::kNoOwner);
    return ring_reduce_scatter(others, has_block, block_, ShareFunction(share), call_.output.data(),
                               call_.type(), reduction_.op);
  }

  // The owner of the block on that host that a local rank of this host processes in this round;
  // negative: none.
  int owner(std::size_t host, std::size_t local_rank) const {
    const auto rail = rails_.rail(round_, local_rank, ranks_);
    const auto& ranks = exchange_.hosts()[host];
    return rail && *rail < ranks.size() ? ranks[*rail] : BlockRails::kNoOwner;
  }

  // This host's sum of elements of that block.
  Result<const std::byte*> reduce(std::size_t host, ElementRange range) {
    const auto offset = range.begin * element_, bytes = range.count() * element_;
    const auto range_of = [&](std::size_t local_rank) {
      const int rank = owner(host, local_rank);
      if (rank < 0) return ByteRange{};
      const auto begin = static_cast<std::size_t>(rank) * block_ + offset;
      return ByteRange{begin, begin + bytes};
    };
    const auto own = range_of(local_rank_);
    if (path_ == Path::single_rank) return call_.input.data() + own.begin;
    auto* const to = share_.data();
    if (path_ == Path::staged) {
      TRY(staged_reduce(*host_, call_.input, range_of, to, reduction_));
      return to;
    }
    if (own.count() == 0) return to;
    PerLocalRank<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) sources[p] = inputs_[p] + own.begin;
    comm::reduce({&to, 1}, std::span(sources).first(ranks_), range.count(), reduction_);
    return to;
  }

  MessageExchange& exchange_;
  HostGroup* const host_;
  const CollectiveCall& call_;
  const ReductionSpec reduction_;
  const std::size_t element_, block_;
  const std::size_t ranks_, local_rank_;  // of this host
  const BlockRails rails_;
  Path path_ = Path::single_rank;
  std::size_t round_ = 0;
  PerLocalRank<const std::byte*> inputs_;
  std::vector<std::byte> share_;  // of a piece
};

}  // namespace

Result<void> hierarchical_reduce_scatter(MessageExchange& exchange, const CollectiveCall& call) {
  return HierarchicalReduceScatter(exchange, call).run();
}

}  // namespace lockstep::comm
