#include "comm/algorithm/hierarchical_all_gather.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/host_staging.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/ring_all_gather.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"

namespace lockstep {
namespace {

class AllGather {
 public:
  AllGather(Exchange& exchange, const Call& call)
      : exchange_(exchange),
        host_(exchange.host()),
        call_(call),
        block_(call.input.size()),
        ranks_(host_ == nullptr ? 1 : host_->size()),
        place_(host_ == nullptr ? 0 : host_->place()),
        lanes_(exchange.hosts()) {}

  Result<void> run() {
    auto* const own = block_of(exchange_.rank());
    if (own != call_.input.data()) copy_bytes(own, call_.input.data(), block_);
    if (host_ == nullptr) return gather_rounds([](ByteRange) { return Result<void>(); });
    if (call_.output.size() <= HostGroup::kBringBytes) {
      TRY(gather_rounds([](ByteRange) { return Result<void>(); }));
      return bring_all();
    }
    TRY(host_->lend(call_.header, {}, call_.output));
    if (!find_outputs()) return gather_rounds([this](ByteRange range) { return stage(range); });
    TRY(gather_rounds([this](ByteRange range) { return give(range); }));
    return host_->meet();
  }

 private:
  bool find_outputs() {
    for (std::size_t p = 0; p < ranks_; ++p) {
      outputs_[p] = host_->output(p, call_.output.size());
      if (outputs_[p] == nullptr) return false;
    }
    outputs_[place_] = call_.output.data();
    return true;
  }

  // Who has no lane in a round takes part in what its host does all the same.
  Result<void> gather_rounds(const Gathered& gathered) {
    for (round_ = 0; round_ < lanes_.rounds(); ++round_) {
      const auto lane = lanes_.lane(round_, place_, ranks_);
      TRY(lane ? gather(*lane, gathered) : follow(gathered));
    }
    return {};
  }
  Result<void> gather(std::size_t lane, const Gathered& gathered) {
    const auto members = lanes_.members(lane), owners = lanes_.owners(lane);
    SubExchange others(exchange_, members);
    return ring_all_gather(others, owners, block_, call_.output, gathered);
  }
  Result<void> follow(const Gathered& gathered) {
    const auto ranges = gathered_ranges(exchange_, block_);
    for (std::size_t i = 0; i < ranges; ++i) {
      const auto range = cut(block_, ranges, i);
      TRY(gathered({range.begin, range.end}));
    }
    return {};
  }

  std::byte* block_of(int rank) const {
    return call_.output.data() + static_cast<std::size_t>(rank) * block_;
  }
  // The ranks whose blocks a place of this host has got in a round.
  std::vector<int> got(std::size_t round, std::size_t place) const {
    const auto lane = lanes_.lane(round, place, ranks_);
    auto owners = lane ? lanes_.owners(*lane) : std::vector<int>();
    std::erase(owners, BlockLanes::kNoBlock);
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

  Result<void> bring_all() {
    std::array<std::byte, HostGroup::kBringBytes> packed;
    const auto rounds = lanes_.rounds();
    auto* end = packed.data();
    std::size_t most = 0;  // the first place has most
    for (std::size_t round = 0; round < rounds; ++round) {
      end = pack(end, got(round, place_), {0, block_});
      most += got(round, 0).size() * block_;
    }
    const auto bytes = static_cast<std::size_t>(end - packed.data());
    TRY(host_->bring(call_.header, std::span(packed).first(bytes), most));
    for (std::size_t i = 1; i < ranks_; ++i) {
      const auto p = (place_ + i) % ranks_;
      const auto* from = host_->brought(p);
      for (std::size_t round = 0; round < rounds; ++round)
        from = unpack(from, got(round, p), {0, block_});
    }
    return {};
  }

  Result<void> give(ByteRange range) {
    const auto blocks = got(round_, place_);
    for (std::size_t i = 1; i < ranks_; ++i) {
      const auto p = (place_ + i) % ranks_;
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
      pack(host_->staging(place_), got(round_, place_), piece);
      TRY(host_->meet());
      for (std::size_t i = 1; i < ranks_; ++i) {
        const auto p = (place_ + i) % ranks_;
        unpack(host_->staging(p), got(round_, p), piece);
      }
      host_->flip();
    }
    return {};
  }

  Exchange& exchange_;
  HostGroup* const host_;
  const Call& call_;
  const std::size_t block_;
  const std::size_t ranks_, place_;  // of this host
  const BlockLanes lanes_;
  std::size_t round_ = 0;
  PerPlace<std::byte*> outputs_;
};

}  // namespace

Result<void> hierarchical_all_gather(Exchange& exchange, const Call& call) {
  return AllGather(exchange, call).run();
}

}  // namespace lockstep
