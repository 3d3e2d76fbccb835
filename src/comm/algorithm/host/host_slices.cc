#include "comm/algorithm/host/host_slices.h"

#include "comm/algorithm/exchange/copy.h"

namespace lockstep::comm {
namespace {

// Small enough that the work within hosts before the first part and after the last part is short
// compared with the whole transfer.
constexpr std::size_t kPartBytes = 2 * 1024 * 1024;

}  // namespace

Slicing slicing_for(std::size_t bytes, const GroupShape& group) {
  if (bytes <= HostGroup::kInlineBytes) return {};
  const auto leaders = static_cast<std::size_t>(group.ranks_per_host_min);
  return {leaders, piece_count(slice(bytes, leaders, 0).count(), kPartBytes)};
}

HostSlices::HostSlices(HostGroup* host, const MessageHeader& call, std::span<std::byte> buffer,
                       std::size_t element, const Slicing& slicing, std::size_t first)
    : host_(host),
      call_(call),
      buffer_(buffer),
      element_(element),
      slicing_(slicing),
      ranks_(host == nullptr ? 1 : host->size()),
      local_rank_(host == nullptr ? 0 : host->local_rank()),
      first_(first) {}

ByteRange HostSlices::slice_of(std::size_t leader) const {
  if (leader >= slicing_.leaders) return {};
  return slice(buffer_.size(), slicing_.leaders, leader);
}

ByteRange HostSlices::part_of(std::size_t leader, std::size_t part) const {
  const auto whole = slice_of(leader);
  const auto elements = cut({whole.begin / element_, whole.end / element_}, slicing_.parts, part);
  return {elements.begin * element_, elements.end * element_};
}

bool HostSlices::find_buffers() {
  for (std::size_t p = 0; p < ranks_; ++p) {
    buffers_[p] = host_->output(p, buffer_.size());
    if (buffers_[p] == nullptr) return false;
  }
  buffers_[local_rank_] = buffer_.data();
  return true;
}

Result<void> HostSlices::enter() {
  if (host_ == nullptr) return {};
  path_ = Path::inline_copy;
  if (buffer_.size() <= HostGroup::kInlineBytes) return {};  // the entry contains the data
  TRY(host_->enter_zero_copy(call_, {}, buffer_));
  path_ = find_buffers() ? Path::zero_copy : Path::staged;
  return {};
}

Result<void> HostSlices::leave() {
  return path_ == Path::zero_copy ? host_->barrier() : Result<void>();
}

Result<void> HostSlices::reduce(std::size_t part, DataType type, ReduceOp op) {
  if (path_ == Path::single_rank) return {};
  return reduce_to(buffer_.data() + part_of(leader_index(), part).begin, part, type, op);
}

Result<const std::byte*> HostSlices::reduce_to_scratch(std::size_t part, DataType type, ReduceOp op,
                                                       std::byte* scratch) {
  if (path_ == Path::single_rank) return buffer_.data() + part_of(leader_index(), part).begin;
  TRY(reduce_to(scratch, part, type, op));
  return is_leader() ? scratch : nullptr;
}

Result<void> HostSlices::reduce_to(std::byte* to, std::size_t part, DataType type, ReduceOp op) {
  const ReductionSpec reduction{type, partial(op)};
  const auto range = part_of(leader_index(), part);
  const auto* const own = buffer_.data() + range.begin;
  if (path_ == Path::staged) {
    const auto range_of = [&](std::size_t local_rank) {
      return part_of(leader_of(local_rank), part);
    };
    return staged_reduce(*host_, buffer_, range_of, to, reduction);
  }
  if (path_ == Path::inline_copy) TRY(host_->enter_inline(call_, buffer_, buffer_.size()));
  if (range.count() == 0) return {};
  PerLocalRank<const std::byte*> sources;
  for (std::size_t p = 0; p < ranks_; ++p)
    sources[p] = p == local_rank_           ? own
                 : path_ == Path::zero_copy ? buffers_[p] + range.begin
                                            : host_->inline_data(p) + range.begin;
  comm::reduce({&to, 1}, std::span(sources).first(ranks_), range.count() / element_, reduction);
  return {};
}

std::byte* HostSlices::result_address(std::size_t part, std::size_t taker,
                                      std::byte* scratch) const {
  const auto begin = part_of(leader_index(), part).begin;
  if (local_rank_ == taker) return buffer_.data() + begin;
  return path_ == Path::zero_copy ? buffers_[taker] + begin : scratch;
}

// With inline data the receiver is the one leader.
Result<void> HostSlices::gather_slices(std::size_t part, std::size_t taker, const std::byte* made) {
  if (path_ != Path::staged) return {};
  return staged_gather(*host_, made, buffer_.data(), taker, [&](std::size_t local_rank) {
    return part_of(leader_of(local_rank), part);
  });
}

void HostSlices::copy_from(std::size_t local_rank, ByteRange range) const {
  if (local_rank != local_rank_)
    copy_bytes(buffer_.data() + range.begin, buffers_[local_rank] + range.begin, range.count());
}

Result<void> HostSlices::broadcast_part(std::size_t part, std::size_t giver) {
  if (path_ == Path::single_rank) return {};
  const bool gives = local_rank_ == giver;
  if (path_ == Path::inline_copy) {
    TRY(host_->enter_inline(call_, gives ? buffer_ : std::span<std::byte>(), buffer_.size()));
    if (!gives) copy_bytes(buffer_.data(), host_->inline_data(giver), buffer_.size());
    return {};
  }
  for (std::size_t leader = 0; leader < slicing_.leaders; ++leader) {
    const auto range = part_of(leader, part);
    if (path_ == Path::zero_copy) {
      copy_from(giver, range);
      continue;
    }
    TRY(staged_all_gather(*host_, buffer_.data(), [&](std::size_t local_rank) {
      return local_rank == giver ? range : ByteRange{};
    }));
  }
  return {};
}

Result<void> HostSlices::all_gather_slices(std::size_t part) {
  if (path_ == Path::single_rank) return {};
  if (path_ == Path::inline_copy) {
    TRY(host_->enter_inline(call_, is_leader() ? buffer_ : std::span<std::byte>(), buffer_.size()));
    if (!is_leader()) copy_bytes(buffer_.data(), host_->inline_data(first_), buffer_.size());
    return {};
  }
  if (path_ == Path::staged)
    return staged_all_gather(*host_, buffer_.data(), [&](std::size_t local_rank) {
      return part_of(leader_of(local_rank), part);
    });
  const auto range = part_of(leader_index(), part);
  for (std::size_t i = 1; i < ranks_; ++i) {
    const auto p = (local_rank_ + i) % ranks_;
    if (range.count() > 0)
      copy_bytes(buffers_[p] + range.begin, buffer_.data() + range.begin, range.count());
  }
  return {};
}

}  // namespace lockstep::comm
