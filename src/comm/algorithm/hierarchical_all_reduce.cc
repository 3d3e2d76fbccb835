#include "comm/algorithm/hierarchical_all_reduce.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "comm/algorithm/copy.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/ring_all_reduce.h"
#include "comm/algorithm/slice.h"
#include "comm/algorithm/sub_exchange.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

template <class Pointer>
using PerPlace = std::array<Pointer, kReductionOperands>;

// An average is summed and divided when all is added.
ReduceOp partial(ReduceOp op) { return op == ReduceOp::average ? ReduceOp::sum : op; }

class HierarchicalAllReduce {
 public:
  HierarchicalAllReduce(Exchange& exchange, HostGroup& host, const Call& call)
      : exchange_(exchange),
        host_(host),
        call_(call),
        buffer_(call.output),
        ranks_(host.size()),
        place_(host.place()),
        own_(slice(buffer_.size(), ranks_, place_)) {}

  Result<void> run() {
    TRY(host_.lend(call_.header, {}, buffer_));
    PerPlace<std::byte*> buffers;
    const bool lent = find_outputs(buffers);
    TRY(lent ? reduce_lent(buffers) : reduce_staged());
    TRY(reduce_between_hosts());
    return lent ? spread_lent(buffers) : spread_staged();
  }

 private:
  bool find_outputs(PerPlace<std::byte*>& buffers) const {
    for (std::size_t p = 0; p < ranks_; ++p) {
      buffers[p] = host_.output(p, buffer_.size());
      if (buffers[p] == nullptr) return false;
    }
    buffers[place_] = buffer_.data();
    return true;
  }

  void reduce_to(std::byte* output, const PerPlace<const std::byte*>& sources,
                 std::size_t bytes) const {
    if (bytes == 0) return;
    lockstep::reduce(std::array{output}, std::span(sources).first(ranks_),
                     bytes / size_of(call_.type()), {call_.type(), partial(call_.reduce())});
  }

  Result<void> reduce_lent(const PerPlace<std::byte*>& buffers) {
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) sources[p] = buffers[p] + own_.begin;
    reduce_to(buffer_.data() + own_.begin, sources, own_.count());
    return {};
  }

  // Nobody but this rank reads or writes its slice of the others' buffers.
  Result<void> spread_lent(const PerPlace<std::byte*>& buffers) {
    for (std::size_t i = 1; i < ranks_; ++i) {
      const auto p = (place_ + i) % ranks_;
      copy_bytes(buffers[p] + own_.begin, buffer_.data() + own_.begin, own_.count());
    }
    return host_.meet();
  }

  std::size_t room() const { return HostGroup::kStagingBytes / ranks_ / 64 * 64; }
  std::size_t longest_slice() const { return slice(buffer_.size(), ranks_, 0).count(); }
  // The bytes of a slice from `begin` on that a piece holds.
  ByteRange piece_of(std::size_t place, std::size_t begin) const {
    const auto whole = slice(buffer_.size(), ranks_, place);
    const auto from = std::min(whole.end, whole.begin + begin);
    return {from, std::min(whole.end, from + room())};
  }

  Result<void> reduce_staged() {
    for (std::size_t begin = 0; begin < longest_slice(); begin += room()) {
      for (std::size_t p = 0; p < ranks_; ++p) {
        const auto piece = piece_of(p, begin);
        if (p != place_)
          copy_bytes(host_.staging(place_) + p * room(), buffer_.data() + piece.begin,
                     piece.count());
      }
      TRY(host_.meet());
      const auto piece = piece_of(place_, begin);
      PerPlace<const std::byte*> sources;
      for (std::size_t p = 0; p < ranks_; ++p)
        sources[p] =
            p == place_ ? buffer_.data() + piece.begin : host_.staging(p) + place_ * room();
      reduce_to(buffer_.data() + piece.begin, sources, piece.count());
      host_.flip();
    }
    return {};
  }

  Result<void> spread_staged() {
    for (std::size_t begin = 0; begin < longest_slice(); begin += HostGroup::kStagingBytes) {
      const auto piece_at = [&](std::size_t place) {
        const auto whole = slice(buffer_.size(), ranks_, place);
        const auto from = std::min(whole.end, whole.begin + begin);
        return ByteRange{from, std::min(whole.end, from + HostGroup::kStagingBytes)};
      };
      const auto own = piece_at(place_);
      copy_bytes(host_.staging(place_), buffer_.data() + own.begin, own.count());
      TRY(host_.meet());
      for (std::size_t i = 1; i < ranks_; ++i) {
        const auto p = (place_ + i) % ranks_;
        const auto piece = piece_at(p);
        copy_bytes(buffer_.data() + piece.begin, host_.staging(p), piece.count());
      }
      host_.flip();
    }
    return {};
  }

  Result<void> reduce_between_hosts() {
    std::vector<int> ring;
    for (const auto& ranks : exchange_.hosts()) ring.push_back(ranks[place_]);
    SubExchange between(exchange_, ring);
    const auto own = buffer_.subspan(own_.begin, own_.count());
    TRY(ring_all_reduce(between, own, call_.type(), partial(call_.reduce())));
    finish(own.data(), own.size() / size_of(call_.type()), call_.type(), call_.reduce(),
           exchange_.size());
    return {};
  }

  Exchange& exchange_;
  HostGroup& host_;
  const Call& call_;
  const std::span<std::byte> buffer_;
  const std::size_t ranks_, place_;
  const ByteRange own_;
};

}  // namespace

bool fits_hierarchical(Exchange& exchange) {
  const auto hosts = exchange.hosts();
  if (hosts.size() < 2) return false;
  const auto ranks = hosts.front().size();
  return ranks > 1 && ranks <= kReductionOperands &&
         std::all_of(hosts.begin(), hosts.end(),
                     [&](const auto& host) { return host.size() == ranks; });
}

Result<void> hierarchical_all_reduce(Exchange& exchange, const Call& call) {
  LS_CHECK(exchange.host() != nullptr);
  return HierarchicalAllReduce(exchange, *exchange.host(), call).run();
}

}  // namespace lockstep
