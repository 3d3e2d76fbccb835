#include "comm/algorithm/host_slices.h"

#include "comm/algorithm/copy.h"

namespace lockstep {
namespace {

// Small enough that what happens in the hosts before the first part travels and after the last one
// has come is short beside the way of all.
constexpr std::size_t kPartBytes = 2 * 1024 * 1024;

}  // namespace

Slicing slicing_for(std::size_t bytes, const GroupShape& group) {
  if (bytes <= HostGroup::kBringBytes) return {};
  const auto leaders = static_cast<std::size_t>(group.fewest);
  return {leaders, pieces_of(slice(bytes, leaders, 0).count(), kPartBytes)};
}

HostSlices::HostSlices(HostGroup* host, const Header& call, std::span<std::byte> buffer,
                       std::size_t element, const Slicing& slicing, std::size_t first)
    : host_(host),
      call_(call),
      buffer_(buffer),
      element_(element),
      slicing_(slicing),
      ranks_(host == nullptr ? 1 : host->size()),
      place_(host == nullptr ? 0 : host->place()),
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
  buffers_[place_] = buffer_.data();
  return true;
}

Result<void> HostSlices::enter() {
  if (host_ == nullptr) return {};
  path_ = Path::brought;
  if (buffer_.size() <= HostGroup::kBringBytes) return {};  // data comes with the entry
  TRY(host_->lend(call_, {}, buffer_));
  path_ = find_buffers() ? Path::lent : Path::staged;
  return {};
}

Result<void> HostSlices::leave() { return path_ == Path::lent ? host_->meet() : Result<void>(); }

Result<void> HostSlices::reduce(std::size_t part, DataType type, ReduceOp op) {
  if (path_ == Path::alone) return {};
  return reduce_to(buffer_.data() + part_of(leader(), part).begin, part, type, op);
}

Result<const std::byte*> HostSlices::reduce_aside(std::size_t part, DataType type, ReduceOp op,
                                                  std::byte* scratch) {
  if (path_ == Path::alone) return buffer_.data() + part_of(leader(), part).begin;
  TRY(reduce_to(scratch, part, type, op));
  return leads() ? scratch : nullptr;
}

Result<void> HostSlices::reduce_to(std::byte* to, std::size_t part, DataType type, ReduceOp op) {
  const ReductionSpec reduction{type, partial(op)};
  const auto range = part_of(leader(), part);
  const auto* const own = buffer_.data() + range.begin;
  if (path_ == Path::staged) {
    const auto range_of = [&](std::size_t place) { return part_of(leader_of(place), part); };
    return staged_reduce(*host_, buffer_, range_of, to, reduction);
  }
  if (path_ == Path::brought) TRY(host_->bring(call_, buffer_, buffer_.size()));
  if (range.count() == 0) return {};
  PerPlace<const std::byte*> sources;
  for (std::size_t p = 0; p < ranks_; ++p)
    sources[p] = p == place_           ? own
                 : path_ == Path::lent ? buffers_[p] + range.begin
                                       : host_->brought(p) + range.begin;
  lockstep::reduce({&to, 1}, std::span(sources).first(ranks_), range.count() / element_, reduction);
  return {};
}

std::byte* HostSlices::room_for(std::size_t part, std::size_t taker, std::byte* scratch) const {
  const auto begin = part_of(leader(), part).begin;
  if (place_ == taker) return buffer_.data() + begin;
  return path_ == Path::lent ? buffers_[taker] + begin : scratch;
}

// Of what is brought the taker is the one leader.
Result<void> HostSlices::hand(std::size_t part, std::size_t taker, const std::byte* made) {
  if (path_ != Path::staged) return {};
  return staged_hand(*host_, made, buffer_.data(), taker,
                     [&](std::size_t place) { return part_of(leader_of(place), part); });
}

void HostSlices::copy_from(std::size_t place, ByteRange range) const {
  if (place != place_)
    copy_bytes(buffer_.data() + range.begin, buffers_[place] + range.begin, range.count());
}

Result<void> HostSlices::give(std::size_t part, std::size_t giver) {
  if (path_ == Path::alone) return {};
  const bool gives = place_ == giver;
  if (path_ == Path::brought) {
    TRY(host_->bring(call_, gives ? buffer_ : std::span<std::byte>(), buffer_.size()));
    if (!gives) copy_bytes(buffer_.data(), host_->brought(giver), buffer_.size());
    return {};
  }
  for (std::size_t leader = 0; leader < slicing_.leaders; ++leader) {
    const auto range = part_of(leader, part);
    if (path_ == Path::lent) {
      copy_from(giver, range);
      continue;
    }
    TRY(staged_spread(*host_, buffer_.data(),
                      [&](std::size_t place) { return place == giver ? range : ByteRange{}; }));
  }
  return {};
}

Result<void> HostSlices::spread(std::size_t part) {
  if (path_ == Path::alone) return {};
  if (path_ == Path::brought) {
    TRY(host_->bring(call_, leads() ? buffer_ : std::span<std::byte>(), buffer_.size()));
    if (!leads()) copy_bytes(buffer_.data(), host_->brought(first_), buffer_.size());
    return {};
  }
  if (path_ == Path::staged)
    return staged_spread(*host_, buffer_.data(),
                         [&](std::size_t place) { return part_of(leader_of(place), part); });
  const auto range = part_of(leader(), part);
  for (std::size_t i = 1; i < ranks_; ++i) {
    const auto p = (place_ + i) % ranks_;
    if (range.count() > 0)
      copy_bytes(buffers_[p] + range.begin, buffer_.data() + range.begin, range.count());
  }
  return {};
}

}  // namespace lockstep
