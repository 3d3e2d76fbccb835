#include "comm/fabric/shm/shared_heap.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kPage = 4096;
// Large buffers are aligned for huge pages.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Where address space is limited (ulimit -v), smaller heaps are tried, down to this size.
constexpr std::size_t kSmallestHeap = std::size_t{64} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::size_t host_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Sets the NUMA node of the caller as preferred. Otherwise the first access decides, which may be a
// peer that stores a result there. The policy of shared memory applies to all that map it. Where
// the policy may not be set, as in some containers, the first access decides.
void prefer_local_numa_node(const std::byte* memory, std::size_t bytes) {
  constexpr unsigned kNodes = 1024, kBits = 64;
  unsigned processor = 0, node = 0;
  if (::getcpu(&processor, &node) != 0 || node >= kNodes) return;
  std::array<std::uint64_t, kNodes / kBits> nodes{};
  nodes[node / kBits] = std::uint64_t{1} << node % kBits;
  ::syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, nodes.data(), kNodes + 1, 0);
}

}  // namespace

std::byte* address_at_offset(const SharedMapping& mapping, std::uint64_t offset,
                             std::size_t bytes) {
  if (offset > mapping.size() || bytes > mapping.size() - offset) return nullptr;
  return mapping.data() + offset;
}

SharedHeap::SharedHeap(Fd memfd, std::shared_ptr<SharedMapping> mapping)
    : pid_(::getpid()), memfd_(std::move(memfd)), mapping_(std::move(mapping)) {
  free_[0] = mapping_->size();
}

Result<std::shared_ptr<SharedHeap>> SharedHeap::create(Bytes size) {
  auto memfd = TRY(make_shared_memory("lockstep-heap", static_cast<std::size_t>(size.count())));
  auto mapping = TRY(SharedMapping::map_shared(memfd, SharedMapping::OnFork::inherited));
  return std::shared_ptr<SharedHeap>(new SharedHeap(std::move(memfd), std::move(mapping)));
}

Result<std::shared_ptr<SharedHeap>> SharedHeap::for_this_process() {
  static auto* mutex = new Mutex;
  static std::shared_ptr<SharedHeap>* heap =
      new std::shared_ptr<SharedHeap>;  // buffers may outlive main
  Lock lock(*mutex);
  if (*heap && (*heap)->pid_ == ::getpid()) return *heap;
  auto size = round_up(host_memory(), kHugePage);
  auto made = create(Bytes(static_cast<std::int64_t>(size)));
  while (!made && size / 4 >= kSmallestHeap) {
    size = round_up(size / 4, kHugePage);
    made = create(Bytes(static_cast<std::int64_t>(size)));
  }
  if (!made) return std::move(made).error();
  *heap = *made;
  return *heap;
}

Result<std::span<std::byte>> SharedHeap::allocate(Bytes size) {
  LS_CHECK(size.count() > 0);
  const auto bytes = round_up(static_cast<std::size_t>(size.count()), kPage);
  const auto alignment = bytes >= kHugePage ? kHugePage : kPage;
  Lock lock(mutex_);
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [begin, length] = *range;
    const auto start = round_up(begin, alignment);
    if (start - begin > length || length - (start - begin) < bytes) continue;
    const auto after = begin + length - (start + bytes);
    if (start == begin)
      free_.erase(range);
    else
      range->second = start - begin;
    if (after > 0) free_[start + bytes] = after;
    auto* memory = mapping_->data() + start;
    prefer_local_numa_node(memory, bytes);
    if (alignment == kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);  // where it is permitted
    return std::span(memory, static_cast<std::size_t>(size.count()));
  }
  return Error{Code::exhausted, format("no {} of shared memory are free; free some buffers first",
                                       lockstep::text(size))};
}

void SharedHeap::free(std::span<std::byte> memory) {
  if (::getpid() != pid_) return;  // a forked child's copy of a buffer: its parent's memory
  const auto offset = static_cast<std::size_t>(memory.data() - mapping_->data());
  const auto bytes = round_up(memory.size(), kPage);
  LS_CHECK(offset_of(memory.data(), bytes).has_value());
  Lock lock(mutex_);
  punch_hole(offset, bytes);
  auto range = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(range);
      next != free_.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range == free_.begin()) return;
  if (const auto before = std::prev(range); before->first + before->second == range->first) {
    before->second += range->second;
    free_.erase(range);
  }
}

void SharedHeap::discard(std::span<std::byte> memory) {
  if (const auto offset = offset_of(memory.data(), memory.size()))
    punch_hole(*offset, round_up(memory.size(), kPage));
}

void SharedHeap::punch_hole(std::size_t offset, std::size_t bytes) {
  ::fallocate(memfd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

std::optional<std::uint64_t> SharedHeap::offset_of(const std::byte* data, std::size_t bytes) const {
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_->data());
  if (start < base || start - base > mapping_->size() || bytes > mapping_->size() - (start - base))
    return std::nullopt;
  return start - base;
}

Result<PeerHeap> PeerHeap::map(const Fd& memfd) {
  return PeerHeap(TRY(SharedMapping::map_shared(memfd)));
}

}  // namespace lockstep::comm
