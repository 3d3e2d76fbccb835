#include "comm/algorithm/host/host_group.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

#include "base/check.h"
#include "comm/algorithm/exchange/copy.h"

namespace lockstep::comm {
namespace {

// Where each rank has its own core, the awaited rank arrives soon. Otherwise it may need this
// rank's core (adaptive_spin.h).
constexpr int kSpinsOnOwnCore = 2000;
constexpr int kSpinsOnSharedCore = 10;
// The time to read a line that another core has just written, including the clock: 20 to 100 ns
// from a cache that both share, 130 to 200 ns from another cache, and rarely between these
// (third-generation EPYC).
constexpr auto kSharedCacheLatency = std::chrono::nanoseconds(110);
// The number of yields before the wait checks for all other events.
constexpr int kYields = 50;

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

std::size_t local_rank_of(int rank, const std::vector<int>& ranks) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  LS_CHECK(found != ranks.end());
  return static_cast<std::size_t>(found - ranks.begin());
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr auto kNoOffset = ~std::uint64_t{0};

// The contents of an enter_zero_copy() entry: offsets in the rank's heap. The header determines all
// sizes.
struct BufferOffsets {
  std::uint64_t input, output;
};
static_assert(sizeof(BufferOffsets) <= sizeof(CallEntry::inline_data));

BufferOffsets buffer_offsets(const CallEntry& entry) {
  BufferOffsets offsets;
  std::memcpy(&offsets, entry.inline_data, sizeof offsets);
  return offsets;
}

}  // namespace

HostGroup::HostGroup(MessageExchange& exchange, const HostSharedMemory& share,
                     std::vector<Link*> links)
    : exchange_(exchange),
      shared_memory_(share),
      local_rank_(local_rank_of(exchange.rank(), share.ranks)),
      spin_(share.ranks.size() <= usable_cores() ? kSpinsOnOwnCore : kSpinsOnSharedCore,
            kSpinsOnSharedCore),
      links_(std::move(links)) {}

Result<void> HostGroup::enter_inline(const MessageHeader& call, std::span<const std::byte> data,
                                     std::size_t most) {
  LS_CHECK(data.size() <= most && most <= kInlineBytes);
  ++calls_;
  auto& own = entry(local_rank_);
  data_in_entry_ = most <= sizeof own.inline_data;
  copy_bytes(data_in_entry_ ? own.inline_data : rank_slot(local_rank_).inline_buffers[calls_ % 2],
             data.data(), data.size());
  return enter(call);
}

const std::byte* HostGroup::inline_data(std::size_t local_rank) const {
  return data_in_entry_ ? entry(local_rank).inline_data
                        : rank_slot(local_rank).inline_buffers[calls_ % 2];
}

Result<void> HostGroup::enter_zero_copy(const MessageHeader& call, std::span<const std::byte> input,
                                        std::span<std::byte> output) {
  ++calls_;
  const BufferOffsets offsets{offset_in_heap(input, uses_[0]), offset_in_heap(output, uses_[1])};
  rank_slot(local_rank_).latency_probe.store(calls_, std::memory_order_relaxed);
  std::memcpy(entry(local_rank_).inline_data, &offsets, sizeof offsets);
  return enter(call);
}

std::uint64_t HostGroup::offset_in_heap(std::span<const std::byte> buffer,
                                        ShareableMemory::Use& use) {
  const auto& heap = shared_memory_.own_heap;
  if (const auto offset = heap->offset_of(buffer.data(), buffer.size())) return *offset;
  use = ShareableMemory::of_this_process().use(heap, buffer);
  return use.offset().value_or(kNoOffset);
}

void HostGroup::leave(bool succeeded) {
  for (auto& use : uses_) use.end(succeeded);
}

std::byte* HostGroup::buffer_address(std::size_t local_rank, std::uint64_t offset,
                                     std::size_t bytes) const {
  if (offset == kNoOffset) return nullptr;
  if (local_rank == local_rank_) return shared_memory_.own_heap->at(offset, bytes);
  return shared_memory_.peer_heaps[static_cast<std::size_t>(rank(local_rank))]->at(offset, bytes);
}
std::byte* HostGroup::input(std::size_t local_rank, std::size_t bytes) const {
  return buffer_address(local_rank, buffer_offsets(entry(local_rank)).input, bytes);
}
std::byte* HostGroup::output(std::size_t local_rank, std::size_t bytes) const {
  return buffer_address(local_rank, buffer_offsets(entry(local_rank)).output, bytes);
}

template <class Ready>
Result<void> HostGroup::wait_for(std::size_t local_rank, WaitReason what, Ready ready) {
  const int spins = background_ ? kSpinsOnSharedCore : spin_.spins();
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return {};
    pause_core();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    spin_.yield();
    if (ready()) return {};
  }
  return exchange_.wait_for(rank(local_rank), what, ready);
}

// All stores and loads of these numbers are sequentially consistent, as are those of the flags that
// notify() checks. So a rank that is about to sleep either sees the number or is notified
// (shm_link.h).
Result<void> HostGroup::enter(const MessageHeader& call) {
  auto& own = entry(local_rank_);
  own.header = call;
  own.number.store(calls_);
  notify_all();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == local_rank_) continue;
    const auto& other = entry(peer);
    TRY(wait_for(peer, WaitReason::enter_call, [&] { return other.number.load() == calls_; }));
    TRY(exchange_.check_call(rank(peer), other.header));
  }
  return {};
}

// All ranks have entered, so each has written its latency_probe since this rank last read it.
bool HostGroup::shares_cache() const {
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == local_rank_) continue;
    const auto begin = std::chrono::steady_clock::now();
    static_cast<void>(rank_slot(peer).latency_probe.load(std::memory_order_relaxed));
    if (std::chrono::steady_clock::now() - begin > kSharedCacheLatency) return false;
  }
  return true;
}

Result<void> HostGroup::barrier() {
  ++barriers_;
  rank_slot(local_rank_).barrier_count.store(barriers_);
  notify_all();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == local_rank_) continue;
    const auto& stage = rank_slot(peer).barrier_count;
    TRY(wait_for(peer, WaitReason::reach_barrier, [&] { return stage.load() >= barriers_; }));
  }
  return {};
}

void HostGroup::notify_all() {
  for (auto* link : links_) link->notify(LinkChannel::collective);
}

std::byte* HostGroup::staging(std::size_t local_rank) const {
  return rank_slot(local_rank).staging[pieces_ % 2];
}

}  // namespace lockstep::comm
