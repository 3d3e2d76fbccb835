#include "comm/algorithm/hierarchical/hierarchical_all_gather.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/rail.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/exchange/subgroup_exchange.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/host/host_staging.h"
#include "comm/algorithm/ring/ring_all_gather.h"

namespace lockstep::comm {
namespace {

class HierarchicalAllGather {
 public:
  HierarchicalAllGather(MessageExchange& exchange, const CollectiveCall& call)
      : exchange_(exchange),
        host_(exchange.host_group()),
        call_(call),
        block_(call.input.size()),
        ranks_(host_ == nullptr ? 1 : host_->size()),
        local_rank_(host_ == nullptr ? 0 : host_->local_rank()),
        rails_(exchange.hosts()) {}

  Result<void> run() {
    auto* const own = block_of(exchange_.rank());
    if (own != call_.input.data()) copy_bytes(own, call_.input.data(), block_);
    if (host_ == nullptr) return gather_rounds([](ByteRange) { return Result<void>(); });
    if (call_.output.size() <= HostGroup::kInlineBytes) {
      TRY(gather_rounds([](ByteRange) { return Result<void>(); }));
      return exchange_inline();
    }
    TRY(host_->enter_zero_copy(call_.header, {}, call_.output));
    if (!find_outputs()) return gather_rounds([this](ByteRange range) { return stage(range); });
    TRY(gather_rounds([this](ByteRange range) { return give(range); }));
    return host_->barrier();
  }

 private:
  bool find_outputs() {
    for (std::size_t p = 0; p < ranks_; ++p) {
      outputs_[p] = host_->output(p, call_.output.size());
      if (outputs_[p] == nullptr) return false;
    }
    outputs_[local_rank_] = call_.output.data();
    return true;
  }

  // A rank that has no rail in a round still takes part in its host's steps.
  Result<void> gather_rounds(const RangeCallback& gathered) {
    for (round_ = 0; round_ < rails_.rounds(); ++round_) {
      const auto rail = rails_.rail(round_, local_rank_, ranks_);
      TRY(rail ? gather(*rail, gathered) : follow(gathered));
    }
    return {};
  }
  Result<void> gather(std::size_t rail, const RangeCallback& gathered) {
    const auto members = rails_.members(rail), owners = rails_.owners(rail);
    SubgroupExchange others(exchange_, members);
    return ring_all_gather(others, owners, block_, call_.output, gathered);
  }
  Result<void> follow(const RangeCallback& gathered) {
    const auto ranges = gathered_range_count(exchange_, block_);
    for (std::size_t i = 0; i < ranges; ++i) {
      const auto range = cut(block_, ranges, i);
      TRY(gathered({range.begin, range.end}));
    }
    return {};
  }

  std::byte* block_of(int rank) const {
    return call_.output.data() + static_cast<std::size_t>(rank) * block_;
  }
  // The ranks whose blocks a local rank of this host has received in a round.
  std::vector<int> got(std::size_t round, std::size_t local_rank) const {
    const auto rail = rails_.rail(round, local_rank, ranks_);
    auto owners = rail ? rails_.owners(*rail) : std::vector<int>();
    std::erase(owners, BlockRails::kNoOwner);
    return owners;
  }

  // A range of each of these blocks, one after the other.
  std::byte* pack(std::byte* to, const std::vector<int>& blocks, ByteRange range) const {
    for (const int rank : blocks) {
      copy_bytes(to, block_of(rank) + range.begin, range.count());
      to += range.count();
    }
    return to;
  }
  const std::byte* unpack(const std::byte* from, const std::vector<int>& blocks,
                          ByteRange range) const {
    for (const int rank : blocks) {
      copy_bytes(block_of(rank) + range.begin, from, range.count());
      from += range.count();
    }
    return from;
  }

  Result<void> exchange_inline() {
    std::array<std::byte, HostGroup::kInlineBytes> packed;
    const auto rounds = rails_.rounds();
    auto* end = packed.data();
    std::size_t most = 0;  // the first local rank has most
    for (std::size_t round = 0; round < rounds; ++round) {
      end = pack(end, got(round, local_rank_), {0, block_});
      most += got(round, 0).size() * block_;
    }
    const auto bytes = static_cast<std::size_t>(end - packed.data());
    TRY(host_->enter_inline(call_.header, std::span(packed).first(bytes), most));
    for (std::size_t i = 1; i < ranks_; ++i) {
      const auto p = (local_rank_ + i) % ranks_;
      const auto* from = host_->inline_data(p);
      for (std::size_t round = 0; round < rounds; ++round)
        from = unpack(from, got(round, p), {0, block_});
    }
    return {};
  }

  Result<void> give(ByteRange range) {
    const auto blocks = got(round_, local_rank_);
    for (std::size_t i = 1; i < ranks_; ++i) {
      const auto p = (local_rank_ + i) % ranks_;
      for (const int rank : blocks) {
        const auto at = static_cast<std::size_t>(rank) * block_ + range.begin;
        copy_bytes(outputs_[p] + at, call_.output.data() + at, range.count());
      }
    }
    return {};
  }

  Result<void> stage(ByteRange range) {
    const auto room = HostGroup::kStagingBytes / exchange_.hosts().size();
    for (auto begin = range.begin; begin < range.end; begin += room) {
      const ByteRange piece{begin, std::min(range.end, begin + room)};
      pack(host_->staging(local_rank_), got(round_, local_rank_), piece);
      TRY(host_->barrier());
      for (std::size_t i = 1; i < ranks_; ++i) {
        const auto p = (local_rank_ + i) % ranks_;
        unpack(host_->staging(p), got(round_, p), piece);
      }
      host_->next_staging_buffer();
    }
    return {};
  }

  MessageExchange& exchange_;
  HostGroup* const host_;
  const CollectiveCall& call_;
  const std::size_t block_;
  const std::size_t ranks_, local_rank_;  // of this host
  const BlockRails rails_;
  std::size_t round_ = 0;
  PerLocalRank<std::byte*> outputs_;
};

}  // namespace

Result<void> hierarchical_all_gather(MessageExchange& exchange, const CollectiveCall& call) {
  return HierarchicalAllGather(exchange, call).run();
}

}  // namespace lockstep::comm
