#include "comm/algorithm/host/host_staging.h"

#include <algorithm>

#include "comm/algorithm/exchange/copy.h"

namespace lockstep::comm {
namespace {

// `room` bytes of a range, `begin` bytes after its start.
ByteRange piece_of(ByteRange range, std::size_t begin, std::size_t room) {
  const auto from = std::min(range.end, range.begin + begin);
  return {from, std::min(range.end, from + room)};
}

std::size_t longest(const HostGroup& host, const RangeOf& range_of) {
  std::size_t bytes = 0;
  for (std::size_t p = 0; p < host.size(); ++p) bytes = std::max(bytes, range_of(p).count());
  return bytes;
}

// How the staging memory of a rank is divided among the receivers.
class StagingLayout {
 public:
  StagingLayout(const HostGroup& host, const RangeOf& range_of) {
    std::size_t takers = 0;
    for (std::size_t p = 0; p < host.size(); ++p) {
      index_[p] = takers;
      if (range_of(p).count() > 0) ++takers;
    }
    bytes_ = HostGroup::kStagingBytes / std::max<std::size_t>(1, takers) / 64 * 64;
  }
  std::size_t bytes() const { return bytes_; }
  std::size_t offset(std::size_t local_rank) const { return index_[local_rank] * bytes_; }

 private:
  PerLocalRank<std::size_t> index_;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<void> staged_reduce(HostGroup& host, std::span<const std::byte> input,
                           const RangeOf& range_of, std::byte* output,
                           const ReductionSpec& reduction) {
  const auto local_rank = host.local_rank(), bytes = longest(host, range_of);
  const StagingLayout layout(host, range_of);
  const auto own = range_of(local_rank);
  for (std::size_t begin = 0; begin < bytes; begin += layout.bytes()) {
    for (std::size_t p = 0; p < host.size(); ++p) {
      const auto piece = piece_of(range_of(p), begin, layout.bytes());
      if (p == local_rank || piece.count() == 0) continue;
      copy_bytes(host.staging(local_rank) + layout.offset(p), input.data() + piece.begin,
                 piece.count());
    }
    TRY(host.barrier());
    if (const auto piece = piece_of(own, begin, layout.bytes()); piece.count() > 0) {
      PerLocalRank<const std::byte*> sources;
      for (std::size_t p = 0; p < host.size(); ++p)
        sources[p] = p == local_rank ? input.data() + piece.begin
                                     : host.staging(p) + layout.offset(local_rank);
      auto* const to = output + (piece.begin - own.begin);
      reduce({&to, 1}, std::span(sources).first(host.size()),
             piece.count() / size_of(reduction.type), reduction);
    }
    host.next_staging_buffer();
  }
  return {};
}

Result<void> staged_gather(HostGroup& host, const std::byte* made, std::byte* buffer,
                           std::size_t taker, const RangeOf& range_of) {
  const auto local_rank = host.local_rank(), bytes = longest(host, range_of);
  constexpr auto kRoom = HostGroup::kStagingBytes;
  for (std::size_t begin = 0; begin < bytes; begin += kRoom) {
    const auto own = piece_of(range_of(local_rank), begin, kRoom);
    if (local_rank != taker && own.count() > 0)
      copy_bytes(host.staging(local_rank), made + begin, own.count());
    TRY(host.barrier());
    for (std::size_t p = 0; local_rank == taker && p < host.size(); ++p) {
      const auto piece = piece_of(range_of(p), begin, kRoom);
      if (p != taker && piece.count() > 0)
        copy_bytes(buffer + piece.begin, host.staging(p), piece.count());
    }
    host.next_staging_buffer();
  }
  return {};
}

Result<void> staged_all_gather(HostGroup& host, std::byte* buffer, const RangeOf& range_of) {
  const auto local_rank = host.local_rank(), bytes = longest(host, range_of);
  constexpr auto kRoom = HostGroup::kStagingBytes;
  for (std::size_t begin = 0; begin < bytes; begin += kRoom) {
    if (const auto own = piece_of(range_of(local_rank), begin, kRoom); own.count() > 0)
      copy_bytes(host.staging(local_rank), buffer + own.begin, own.count());
    TRY(host.barrier());
    for (std::size_t i = 1; i < host.size(); ++i) {
      const auto p = (local_rank + i) % host.size();
      const auto piece = piece_of(range_of(p), begin, kRoom);
      if (piece.count() > 0) copy_bytes(buffer + piece.begin, host.staging(p), piece.count());
    }
    host.next_staging_buffer();
  }
  return {};
}

}  // namespace lockstep::comm
