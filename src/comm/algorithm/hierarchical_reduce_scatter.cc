#include "comm/algorithm/hierarchical_reduce_scatter.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "comm/algorithm/host_group.h"
#include "comm/algorithm/host_staging.h"
#include "comm/algorithm/lane.h"
#include "comm/algorithm/ring_reduce_scatter.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

class ReduceScatter {
 public:
  ReduceScatter(Exchange& exchange, const Call& call)
      : exchange_(exchange),
        host_(exchange.host()),
        call_(call),
        reduction_{call.type(), partial(call.reduce())},
        element_(size_of(call.type())),
        block_(call.output.size()),
        ranks_(host_ == nullptr ? 1 : host_->size()),
        place_(host_ == nullptr ? 0 : host_->place()),
        lanes_(exchange.hosts()),
        share_(host_ == nullptr ? 0 : std::min(block_, exchange.piece_bytes())) {}

  Result<void> run() {
    TRY(enter());
    for (round_ = 0; round_ < lanes_.rounds(); ++round_) TRY(take_lane());
    finish(call_.output.data(), block_ / element_, call_.type(), call_.reduce(), exchange_.size());
    return path_ == Path::lent ? host_->meet() : Result<void>();
  }

 private:
  enum class Path { alone, brought, lent, staged };

  Result<void> enter() {
    if (host_ == nullptr) return {};
    const auto bytes = call_.input.size();
    path_ = bytes <= HostGroup::kBringBytes ? Path::brought : Path::lent;
    TRY(path_ == Path::brought ? host_->bring(call_.header, call_.input, bytes)
                               : host_->lend(call_.header, call_.input, {}));
    for (std::size_t p = 0; p < ranks_; ++p) {
      inputs_[p] = path_ == Path::brought ? host_->brought(p) : host_->input(p, bytes);
      if (inputs_[p] == nullptr) path_ = Path::staged;
      if (path_ == Path::staged) return {};
    }
    inputs_[place_] = call_.input.data();
    return {};
  }

  // Who has no lane in a round takes part in what its host does all the same.
  Result<void> take_lane() {
    const auto lane = lanes_.lane(round_, place_, ranks_);
    const auto members = lanes_.members(lane.value_or(place_));
    SubExchange others(exchange_, members);
    const auto share = [this](std::size_t host, ElementRange range) { return reduce(host, range); };
    if (!lane) return make_shares(others, block_, ShareOf(share), call_.type());
    std::vector<bool> has_block;
    for (const int owner : lanes_.owners(*lane)) has_block.push_back(owner != BlockLanes::kNoBlock);
    return ring_reduce_scatter(others, has_block, block_, ShareOf(share), call_.output.data(),
                               call_.type(), reduction_.op);
  }

  // Whose block of that host a place of this one is at in this round; negative: none.
  int owner(std::size_t host, std::size_t place) const {
    const auto lane = lanes_.lane(round_, place, ranks_);
    const auto& ranks = exchange_.hosts()[host];
    return lane && *lane < ranks.size() ? ranks[*lane] : BlockLanes::kNoBlock;
  }

  // What this host has for elements of that block.
  Result<const std::byte*> reduce(std::size_t host, ElementRange range) {
    const auto offset = range.begin * element_, bytes = range.count() * element_;
    const auto range_of = [&](std::size_t place) {
      const int rank = owner(host, place);
      if (rank < 0) return ByteRange{};
      const auto begin = static_cast<std::size_t>(rank) * block_ + offset;
      return ByteRange{begin, begin + bytes};
    };
    const auto own = range_of(place_);
    if (path_ == Path::alone) return call_.input.data() + own.begin;
    auto* const to = share_.data();
    if (path_ == Path::staged) {
      TRY(staged_reduce(*host_, call_.input, range_of, to, reduction_));
      return to;
    }
    if (own.count() == 0) return to;
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) sources[p] = inputs_[p] + own.begin;
    lockstep::reduce({&to, 1}, std::span(sources).first(ranks_), range.count(), reduction_);
    return to;
  }

  Exchange& exchange_;
  HostGroup* const host_;
  const Call& call_;
  const ReductionSpec reduction_;
  const std::size_t element_, block_;
  const std::size_t ranks_, place_;  // of this host
  const BlockLanes lanes_;
  Path path_ = Path::alone;
  std::size_t round_ = 0;
  PerPlace<const std::byte*> inputs_;
  std::vector<std::byte> share_;  // of a piece
};

}  // namespace

Result<void> hierarchical_reduce_scatter(Exchange& exchange, const Call& call) {
  return ReduceScatter(exchange, call).run();
}

}  // namespace lockstep
