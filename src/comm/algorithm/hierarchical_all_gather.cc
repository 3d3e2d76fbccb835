#include "comm/algorithm/hierarchical_all_gather.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
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
        host_(*exchange.host()),
        call_(call),
        block_(call.input.size()),
        lane_(lane_of(exchange, host_.place())) {}

  Result<void> run() {
    SubExchange others(exchange_, lane_);
    if (call_.output.size() <= HostGroup::kBringBytes) {
      TRY(ring_all_gather(others, call_.input, call_.output));
      return bring_all();
    }
    TRY(host_.lend(call_.header, {}, call_.output));
    const bool lent = find_outputs();
    TRY(ring_all_gather(others, call_.input, call_.output, [&](ByteRange range) {
      return lent ? give_lent(range) : give_staged(range);
    }));
    return lent ? host_.meet() : Result<void>();
  }

 private:
  bool find_outputs() {
    for (std::size_t p = 0; p < host_.size(); ++p) {
      outputs_[p] = host_.output(p, call_.output.size());
      if (outputs_[p] == nullptr) return false;
    }
    outputs_[host_.place()] = call_.output.data();
    return true;
  }

  // Where the block of the rank with this place on that host begins.
  std::size_t offset(std::size_t host, std::size_t place) const {
    return static_cast<std::size_t>(exchange_.hosts()[host][place]) * block_;
  }

  // A range of each block of a lane, one after the other.
  void pack(std::byte* to, std::size_t place, ByteRange range) const {
    for (std::size_t host = 0; host < lane_.size(); ++host)
      copy_bytes(to + host * range.count(), call_.output.data() + offset(host, place) + range.begin,
                 range.count());
  }
  void unpack(const std::byte* from, std::size_t place, ByteRange range) const {
    for (std::size_t host = 0; host < lane_.size(); ++host)
      copy_bytes(call_.output.data() + offset(host, place) + range.begin,
                 from + host * range.count(), range.count());
  }
  template <class From>
  void unpack_others(From from, ByteRange range) const {
    for (std::size_t i = 1; i < host_.size(); ++i) {
      const auto p = (host_.place() + i) % host_.size();
      unpack(from(p), p, range);
    }
  }

  Result<void> bring_all() {
    std::array<std::byte, HostGroup::kBringBytes> packed;
    const auto bytes = lane_.size() * block_;
    pack(packed.data(), host_.place(), {0, block_});
    TRY(host_.bring(call_.header, std::span(packed).first(bytes), bytes));
    unpack_others([&](std::size_t p) { return host_.brought(p); }, {0, block_});
    return {};
  }

  Result<void> give_lent(ByteRange range) {
    for (std::size_t i = 1; i < host_.size(); ++i) {
      const auto p = (host_.place() + i) % host_.size();
      for (std::size_t host = 0; host < lane_.size(); ++host) {
        const auto at = offset(host, host_.place()) + range.begin;
        copy_bytes(outputs_[p] + at, call_.output.data() + at, range.count());
      }
    }
    return {};
  }

  Result<void> give_staged(ByteRange range) {
    const auto room = HostGroup::kStagingBytes / lane_.size();
    for (auto begin = range.begin; begin < range.end; begin += room) {
      const ByteRange piece{begin, std::min(range.end, begin + room)};
      pack(host_.staging(host_.place()), host_.place(), piece);
      TRY(host_.meet());
      unpack_others([&](std::size_t p) { return host_.staging(p); }, piece);
      host_.flip();
    }
    return {};
  }

  Exchange& exchange_;
  HostGroup& host_;
  const Call& call_;
  const std::size_t block_;
  const std::vector<int> lane_;
  PerPlace<std::byte*> outputs_;
};

}  // namespace

Result<void> hierarchical_all_gather(Exchange& exchange, const Call& call) {
  LS_CHECK(exchange.host() != nullptr);
  return AllGather(exchange, call).run();
}

}  // namespace lockstep
