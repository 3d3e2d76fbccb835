#include "comm/algorithm/hierarchical_reduce_scatter.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
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
        host_(*exchange.host()),
        call_(call),
        reduction_{call.type(), partial(call.reduce())},
        element_(size_of(call.type())),
        block_(call.output.size()),
        lane_(lane_of(exchange, host_.place())),
        share_(std::min(block_, exchange.piece_bytes())) {}

  Result<void> run() {
    TRY(enter());
    SubExchange others(exchange_, lane_);
    const auto share = [this](int rank, ElementRange range) { return reduce(rank, range); };
    TRY(ring_reduce_scatter(others, ShareOf(share), call_.output, call_.type(), reduction_.op));
    finish(call_.output.data(), block_ / element_, call_.type(), call_.reduce(), exchange_.size());
    return path_ == Path::lent ? host_.meet() : Result<void>();
  }

 private:
  enum class Path { brought, lent, staged };

  Result<void> enter() {
    const auto bytes = call_.input.size();
    path_ = bytes <= HostGroup::kBringBytes ? Path::brought : Path::lent;
    TRY(path_ == Path::brought ? host_.bring(call_.header, call_.input, bytes)
                               : host_.lend(call_.header, call_.input, {}));
    for (std::size_t p = 0; p < host_.size(); ++p) {
      inputs_[p] = path_ == Path::brought ? host_.brought(p) : host_.input(p, bytes);
      if (inputs_[p] == nullptr) path_ = Path::staged;
      if (path_ == Path::staged) return {};
    }
    inputs_[host_.place()] = call_.input.data();
    return {};
  }

  // What this host has for elements of a block of this lane.
  Result<const std::byte*> reduce(int rank, ElementRange range) {
    const auto offset = range.begin * element_, bytes = range.count() * element_;
    if (path_ == Path::staged) {
      const auto& ranks = host_of(rank);
      const auto range_of = [&](std::size_t place) {
        const auto begin = static_cast<std::size_t>(ranks[place]) * block_ + offset;
        return ByteRange{begin, begin + bytes};
      };
      TRY(staged_reduce(host_, call_.input, range_of, share_.data(), reduction_));
      return share_.data();
    }
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < host_.size(); ++p)
      sources[p] = inputs_[p] + static_cast<std::size_t>(rank) * block_ + offset;
    auto* const to = share_.data();
    if (bytes > 0)
      lockstep::reduce({&to, 1}, std::span(sources).first(host_.size()), range.count(), reduction_);
    return to;
  }

  const std::vector<int>& host_of(int rank) const {
    const auto hosts = exchange_.hosts();
    for (std::size_t host = 0; host < hosts.size(); ++host)
      if (lane_[host] == rank) return hosts[host];
    LS_CHECK(false, "rank {} has another place on its host", rank);
    return hosts.front();
  }

  Exchange& exchange_;
  HostGroup& host_;
  const Call& call_;
  const ReductionSpec reduction_;
  const std::size_t element_, block_;
  const std::vector<int> lane_;
  Path path_ = Path::brought;
  PerPlace<const std::byte*> inputs_;
  std::vector<std::byte> share_;  // of a piece
};

}  // namespace

Result<void> hierarchical_reduce_scatter(Exchange& exchange, const Call& call) {
  LS_CHECK(exchange.host() != nullptr);
  return ReduceScatter(exchange, call).run();
}

}  // namespace lockstep
