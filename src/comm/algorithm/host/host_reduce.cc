#include "comm/algorithm/host/host_reduce.h"

#include <algorithm>
#include <array>

#include "comm/algorithm/exchange/copy.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/host/host_staging.h"
#include "comm/algorithm/host/host_store_mode.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// For more bytes zero-copy is faster than inline, where each rank reads all data.
constexpr std::size_t kInlineAllReduceBytes = 4 * 1024;

class HostReduction {
 public:
  HostReduction(HostGroup& host, const CollectiveCall& call)
      : host_(host),
        call_(call),
        ranks_(host.size()),
        local_rank_(host.local_rank()),
        reduction_{call.type(), call.reduce(), static_cast<int>(ranks_)} {}

  Result<void> all_reduce() {
    const auto buffer = call_.output;
    if (buffer.size() <= kInlineAllReduceBytes) {
      TRY(host_.enter_inline(call_.header, buffer, buffer.size()));
      reduce_inline(0, buffer.data(), buffer);
      return {};
    }
    TRY(host_.enter_zero_copy(call_.header, {}, buffer));
    PerLocalRank<std::byte*> buffers;
    if (!find_outputs(buffers, buffer.size())) return staged_all_reduce();
    return reduce_to_all_outputs(buffers);
  }

  Result<void> reduce() {
    const auto buffer = call_.output;
    const bool root = host_.rank(local_rank_) == call_.root();
    if (buffer.size() <= HostGroup::kInlineBytes) {
      TRY(host_.enter_inline(call_.header, buffer, buffer.size()));
      if (root) reduce_inline(0, buffer.data(), buffer);
      return {};
    }
    TRY(host_.enter_zero_copy(call_.header, {}, buffer));
    PerLocalRank<std::byte*> buffers;
    if (!find_outputs(buffers, buffer.size())) return stage_to_root();
    const auto own = slice(buffer.size(), ranks_, local_rank_);
    PerLocalRank<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) {
      sources[p] = buffers[p] + own.begin;
      if (host_.rank(p) == call_.root()) target_ = buffers[p] + own.begin;
    }
    reduce_to(std::array{target_}, sources, own.count());
    return host_.barrier();
  }

  Result<void> reduce_scatter() {
    const auto block = call_.output.size();
    if (call_.input.size() <= HostGroup::kInlineBytes) {
      TRY(host_.enter_inline(call_.header, call_.input, call_.input.size()));
      reduce_inline(local_rank_ * block, call_.output.data(), call_.input);
      return {};
    }
    TRY(host_.enter_zero_copy(call_.header, call_.input, {}));
    PerLocalRank<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) {
      const auto* input = host_.input(p, call_.input.size());
      if (input == nullptr) return stage_blocks();
      sources[p] = input + local_rank_ * block;
    }
    const bool in_place =
        sources[local_rank_] == call_.output.data();  // the overwritten data is read
    const auto stores =
        in_place ? StoreMode::cached : store_mode_for_own((ranks_ + 1) * call_.input.size());
    reduce_to(std::array{call_.output.data()}, sources, block, stores);
    return host_.barrier();
  }

 private:
  bool find_outputs(PerLocalRank<std::byte*>& buffers, std::size_t bytes) const {
    for (std::size_t p = 0; p < ranks_; ++p) {
      buffers[p] = p == local_rank_ ? call_.output.data() : host_.output(p, bytes);
      if (host_.output(p, bytes) == nullptr) return false;
    }
    return true;
  }

  // Reduces the inline data of all ranks, from `offset` on, into `output`. The own share is read
  // from its original location.
  void reduce_inline(std::size_t offset, std::byte* output, std::span<const std::byte> own) {
    PerLocalRank<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p)
      sources[p] = (p == local_rank_ ? own.data() : host_.inline_data(p)) + offset;
    reduce_to(std::array{output}, sources, call_.output.size());
  }

  void reduce_to(std::span<std::byte* const> outputs, const PerLocalRank<const std::byte*>& sources,
                 std::size_t bytes, StoreMode stores = StoreMode::cached) const {
    if (bytes == 0) return;
    auto reduction = reduction_;
    reduction.store_mode = stores;
    comm::reduce(outputs, std::span(sources).first(ranks_), bytes / size_of(call_.type()),
                 reduction);
  }

  Result<void> reduce_to_all_outputs(PerLocalRank<std::byte*>& buffers) {
    const auto own = slice(call_.output.size(), ranks_, local_rank_);
    PerLocalRank<const std::byte*> sources;
    for (std::size_t p = 0; p < ranks_; ++p) sources[p] = buffers[p] += own.begin;
    reduce_to(std::span(buffers).first(ranks_), sources, own.count());
    return host_.barrier();
  }

  // Results are staged where the own share of the operands would be, which no rank reads.
  Result<void> staged_all_reduce() {
    auto* const buffer = call_.output.data();
    const auto bytes = call_.output.size();
    for (std::size_t begin = 0; begin < bytes; begin += HostGroup::kStagingBytes) {
      const auto piece = std::min(HostGroup::kStagingBytes, bytes - begin);
      const auto own = slice(piece, ranks_, local_rank_);
      auto* const staged = host_.staging(local_rank_);
      copy_bytes(staged, buffer + begin, own.begin);
      copy_bytes(staged + own.end, buffer + begin + own.end, piece - own.end);
      TRY(host_.barrier());
      PerLocalRank<const std::byte*> sources;
      for (std::size_t p = 0; p < ranks_; ++p)
        sources[p] = (p == local_rank_ ? buffer + begin : host_.staging(p)) + own.begin;
      reduce_to(std::array{buffer + begin + own.begin, staged + own.begin}, sources, own.count());
      TRY(host_.barrier());
      for (std::size_t i = 1; i < ranks_; ++i) {
        const auto p = (local_rank_ + i) % ranks_;
        const auto other = slice(piece, ranks_, p);
        copy_bytes(buffer + begin + other.begin, host_.staging(p) + other.begin, other.count());
      }
      host_.next_staging_buffer();
    }
    return {};
  }

  Result<void> stage_to_root() {
    const auto all_to_root = [&](std::size_t local_rank) {
      return ByteRange{0, host_.rank(local_rank) == call_.root() ? call_.output.size() : 0};
    };
    return staged_reduce(host_, call_.output, all_to_root, call_.output.data(), reduction_);
  }

  Result<void> stage_blocks() {
    const auto block = [&](std::size_t local_rank) {
      return ByteRange{local_rank * call_.output.size(), (local_rank + 1) * call_.output.size()};
    };
    return staged_reduce(host_, call_.input, block, call_.output.data(), reduction_);
  }

  HostGroup& host_;
  const CollectiveCall& call_;
  const std::size_t ranks_, local_rank_;
  const ReductionSpec reduction_;
  std::byte* target_ = nullptr;
};

}  // namespace

Result<void> host_all_reduce(HostGroup& host, const CollectiveCall& call) {
  return HostReduction(host, call).all_reduce();
}
Result<void> host_reduce(HostGroup& host, const CollectiveCall& call) {
  return HostReduction(host, call).reduce();
}
Result<void> host_reduce_scatter(HostGroup& host, const CollectiveCall& call) {
  return HostReduction(host, call).reduce_scatter();
}

}  // namespace lockstep::comm
