// HostGroup: how the ranks of one host execute a collective together in shared memory
// (fabric/shm/shared_segment.h).
//
// Each call begins with an entry. Each rank publishes its call, and either copies its data inline,
// if it is small, or publishes its buffers for zero-copy access. Then it waits until all have
// entered. So a rank that makes a different call is detected at once, and all ranks agree whether
// all buffers are in the shared heap.
//
// When may memory be written again? Entries and inline buffers of even and odd calls are separate.
// A rank enters call k + 2 only after all have entered k + 1, and those have read all of k.
// Zero-copy buffers and staging have no such rule: after reading or writing those of others, the
// ranks call barrier().
//
// For the thread that executes the call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/algorithm/exchange/adaptive_spin.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/host_shared_memory.h"
#include "comm/fabric/shm/shareable_memory.h"
#include "comm/fabric/shm/shared_segment.h"
#include "comm/group/wait_reason.h"

namespace lockstep::comm {

class HostGroup {
 public:
  // links: to the other ranks of the host. They notify sleeping ranks.
  HostGroup(MessageExchange& exchange, const HostSharedMemory& share, std::vector<Link*> links);

  // True if the next calls run beside a program that computes, so that spinning would take its
  // core. Otherwise the callers have no other work.
  void set_background(bool background) { background_ = background; }

  // Ranks are named by their local rank on this host, in ascending order.
  std::size_t size() const { return shared_memory_.ranks.size(); }
  std::size_t local_rank() const { return local_rank_; }
  int rank(std::size_t local_rank) const { return shared_memory_.ranks[local_rank]; }

  // The largest inline data.
  static constexpr std::size_t kInlineBytes = RankSlot::kInlineBytes;
  // Enters a call with a copy of `data`. Every rank of the host may read it until it enters the
  // next call. most: the largest data of any rank, the same on all.
  Result<void> enter_inline(const MessageHeader& call, std::span<const std::byte> data,
                            std::size_t most);
  const std::byte* inline_data(std::size_t local_rank) const;

  // Enters a call with buffers; an unused buffer is empty. They may be anywhere; those in shareable
  // memory move into the heap. input() and output() are null when a peer's buffer is not completely
  // in its shared heap, or is shorter than `bytes`. Call leave() when the call has ended.
  Result<void> enter_zero_copy(const MessageHeader& call, std::span<const std::byte> input,
                               std::span<std::byte> output);
  std::byte* input(std::size_t local_rank, std::size_t bytes) const;
  std::byte* output(std::size_t local_rank, std::size_t bytes) const;
  // succeeded: all ranks have ended it, so that none accesses the buffers any more.
  void leave(bool succeeded);

  // Call after enter_zero_copy(). True if data that the other ranks have just written arrives fast
  // at this rank, as from a last-level cache that all share. It is measured, because a virtual
  // machine does not reveal where its cores are, and they move within seconds. Ranks may get
  // different answers.
  bool shares_cache() const;

  // Waits until all ranks have reached the barrier.
  Result<void> barrier();

  // Shared memory of each rank. That rank writes it before a barrier() and all ranks read it after
  // the barrier. Call next_staging_buffer() after the reads: it selects another buffer. The buffer
  // after that one may be written after the next barrier.
  static constexpr std::size_t kStagingBytes = RankSlot::kStagingBytes;
  std::byte* staging(std::size_t local_rank) const;
  void next_staging_buffer() { ++pieces_; }

 private:
  RankSlot& rank_slot(std::size_t local_rank) const {
    return shared_memory_.segment.slot(rank(local_rank));
  }
  CallEntry& entry(std::size_t local_rank) const {
    return rank_slot(local_rank).entries[calls_ % 2];
  }
  Result<void> enter(const MessageHeader& call);
  template <class Ready>
  Result<void> wait_for(std::size_t local_rank, WaitReason what, Ready ready);
  void notify_all();
  std::uint64_t offset_in_heap(std::span<const std::byte> buffer, ShareableMemory::Use& use);
  std::byte* buffer_address(std::size_t local_rank, std::uint64_t offset, std::size_t bytes) const;

  MessageExchange& exchange_;
  const HostSharedMemory& shared_memory_;
  const std::size_t local_rank_;
  AdaptiveSpin spin_;  // in the foreground
  bool background_ = false;
  const std::vector<Link*> links_;  // to the others
  std::uint64_t calls_ = 0;
  bool data_in_entry_ = false;
  std::array<ShareableMemory::Use, 2> uses_ = {};  // of the call's input and output
  std::uint64_t barriers_ = 0;
  std::uint64_t pieces_ = 0;
};

}  // namespace lockstep::comm
