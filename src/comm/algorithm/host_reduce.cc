#include "comm/algorithm/host_reduce.h"

#include <algorithm>
#include <array>

#include "comm/algorithm/copy.h"
#include "comm/algorithm/host_staging.h"
#include "comm/algorithm/host_stores.h"
#include "comm/algorithm/slice.h"
#include "comm/reduction/reduction.h"

namespace lockstep {
namespace {

// More is faster lent than brought: everybody reads all that is brought.
constexpr std::size_t kBroughtAllReduceBytes = 4 * 1024;

class HostReduction {
 public:
  HostReduction(HostGroup& host, const Call& call)
      : host_(host),
        call_(call),
        ranks_(host.size()),
        place_(host.place()),
        reduction_{call.type(), call.reduce(), static_cast<int>(ranks_)} {}

  Result<void> all_reduce() {
    const auto buffer = call_.output;
    if (buffer.size() <= kBroughtAllReduceBytes) {
      TRY(host_.bring(call_.header, buffer, buffer.size()));
      reduce_brought(0, buffer.data(), buffer);
      return {};
    }
    TRY(host_.lend(call_.header, {}, buffer));
    PerPlace<std::byte*> buffers;
    if (!find_outputs(buffers, buffer.size())) return staged_all_reduce();
    return push(buffers);
  }

  Result<void> reduce() {
    const auto buffer = call_.output;
    const bool root = host_.rank(place_) == call_.root();
    if (buffer.size() <= HostGroup::kBringBytes) {
      TRY(host_.bring(call_.header, buffer, buffer.size()));
      if (root) reduce_brought(0, buffer.data(), buffer);
      return {};
    }
    TRY(host_.lend(call_.header, {}, buffer));
    PerPlace<std::byte*> buffers;
    if (!find_outputs(buffers, buffer.size())) return stage_to_root();
    const auto own = slice(buffer.size(), ranks_, place_);
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) {
      sources[p] = buffers[p] + own.begin;
      if (host_.rank(p) == call_.root()) target_ = buffers[p] + own.begin;
    }
    reduce_to(std::array{target_}, sources, own.count());
    return host_.meet();
  }

  Result<void> reduce_scatter() {
    const auto block = call_.output.size();
    if (call_.input.size() <= HostGroup::kBringBytes) {
      TRY(host_.bring(call_.header, call_.input, call_.input.size()));
      reduce_brought(place_ * block, call_.output.data(), call_.input);
      return {};
    }
    TRY(host_.lend(call_.header, call_.input, {}));
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) {
      const auto* input = host_.input(p, call_.input.size());
      if (input == nullptr) return stage_blocks();
      sources[p] = input + place_ * block;
    }
    const bool in_place = sources[place_] == call_.output.data();  // what is overwritten is read
    const auto stores =
        in_place ? Stores::cached : stores_into_own((ranks_ + 1) * call_.input.size());
    reduce_to(std::array{call_.output.data()}, sources, block, stores);
    return host_.meet();
  }

 private:
  bool find_outputs(PerPlace<std::byte*>& buffers, std::size_t bytes) const {
    for (std::size_t p = 0; p < ranks_; ++p) {
      buffers[p] = p == place_ ? call_.output.data() : host_.output(p, bytes);
      if (host_.output(p, bytes) == nullptr) return false;
    }
    return true;
  }

  // What each brought, from `offset` on, into `output`; the own share from where it came.
  void reduce_brought(std::size_t offset, std::byte* output, std::span<const std::byte> own) {
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p)
      sources[p] = (p == place_ ? own.data() : host_.brought(p)) + offset;
    reduce_to(std::array{output}, sources, call_.output.size());
  }

  void reduce_to(std::span<std::byte* const> outputs, const PerPlace<const std::byte*>& sources,
                 std::size_t bytes, Stores stores = Stores::cached) const {
    if (bytes == 0) return;
    auto reduction = reduction_;
    reduction.stores = stores;
    lockstep::reduce(outputs, std::span(sources).first(ranks_), bytes / size_of(call_.type()),
                     reduction);
  }

  Result<void> push(PerPlace<std::byte*>& buffers) {
    const auto own = slice(call_.output.size(), ranks_, place_);
    PerPlace<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) sources[p] = buffers[p] += own.begin;
    reduce_to(std::span(buffers).first(ranks_), sources, own.count());
    return host_.meet();
  }

  // Results are staged where the own share of the operands would lie, which nobody reads.
  Result<void> staged_all_reduce() {
    auto* const buffer = call_.output.data();
    const auto bytes = call_.output.size();
    for (std::size_t begin = 0; begin < bytes; begin += HostGroup::kStagingBytes) {
      const auto piece = std::min(HostGroup::kStagingBytes, bytes - begin);
      const auto own = slice(piece, ranks_, place_);
      auto* const staged = host_.staging(place_);
      copy_bytes(staged, buffer + begin, own.begin);
      copy_bytes(staged + own.end, buffer + begin + own.end, piece - own.end);
      TRY(host_.meet());
      PerPlace<const std::byte*> sources;
      for (std::size_t p = 0; p < ranks_; ++p)
        sources[p] = (p == place_ ? buffer + begin : host_.staging(p)) + own.begin;
      reduce_to(std::array{buffer + begin + own.begin, staged + own.begin}, sources, own.count());
      TRY(host_.meet());
      for (std::size_t i = 1; i < ranks_; ++i) {
        const auto p = (place_ + i) % ranks_;
        const auto other = slice(piece, ranks_, p);
        copy_bytes(buffer + begin + other.begin, host_.staging(p) + other.begin, other.count());
      }
      host_.flip();
    }
    return {};
  }

  Result<void> stage_to_root() {
    const auto all_to_root = [&](std::size_t place) {
      return ByteRange{0, host_.rank(place) == call_.root() ? call_.output.size() : 0};
    };
    return staged_reduce(host_, call_.output, all_to_root, call_.output.data(), reduction_);
  }

  Result<void> stage_blocks() {
    const auto block = [&](std::size_t place) {
      return ByteRange{place * call_.output.size(), (place + 1) * call_.output.size()};
    };
    return staged_reduce(host_, call_.input, block, call_.output.data(), reduction_);
  }

  HostGroup& host_;
  const Call& call_;
  const std::size_t ranks_, place_;
  const ReductionSpec reduction_;
  std::byte* target_ = nullptr;
};

}  // namespace

Result<void> host_all_reduce(HostGroup& host, const Call& call) {
  return HostReduction(host, call).all_reduce();
}
Result<void> host_reduce(HostGroup& host, const Call& call) {
  return HostReduction(host, call).reduce();
}
Result<void> host_reduce_scatter(HostGroup& host, const Call& call) {
  return HostReduction(host, call).reduce_scatter();
}

}  // namespace lockstep
