// SharedSegment: the memory that the ranks of one host share for their collectives. It has a slot
// for each rank of the group, which that rank alone writes and all others read. Zeroes, the content
// of new shared memory, are its valid initial state; unused slots take no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/os/fd.h"
#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/mapping.h"

namespace lockstep::comm {

// The entry that a rank writes for a call: one cache line, so small data is part of it.
struct alignas(64) CallEntry {
  std::atomic<std::uint64_t> number;  // of the call; stored last
  MessageHeader header;
  std::byte inline_data[24];  // the data itself, or its location
};
static_assert(sizeof(CallEntry) == 64);

struct RankSlot {
  static constexpr std::size_t kInlineBytes = 32 * 1024;
  static constexpr std::size_t kStagingBytes = 1024 * 1024;

  CallEntry entries[2];                                  // of even and of odd calls
  alignas(64) std::atomic<std::uint64_t> barrier_count;  // the barriers that this rank has reached
  // Written in each zero-copy call. Others measure how long it takes to read what this rank has
  // just written. It is in a separate line, so that no processor fetches it along with data that is
  // read before.
  alignas(2048) std::atomic<std::uint64_t> latency_probe;
  alignas(4096) std::byte inline_buffers[2][kInlineBytes];  // of even and of odd calls
  alignas(4096) std::byte staging[2][kStagingBytes];
};

class SharedSegment {
 public:
  static Result<SharedSegment> create(int ranks);
  // Error corrupt when it is not the segment of a group of `ranks` ranks.
  static Result<SharedSegment> map(const Fd& memfd, int ranks);

  RankSlot& slot(int rank) const { return reinterpret_cast<RankSlot*>(mapping_->data())[rank]; }
  const Fd& memfd() const { return memfd_; }  // of a segment that was created here

 private:
  SharedSegment(Fd memfd, std::shared_ptr<SharedMapping> mapping)
      : memfd_(std::move(memfd)), mapping_(std::move(mapping)) {}
  Fd memfd_;
  std::shared_ptr<SharedMapping> mapping_;  // shared with ranks that are threads
};

}  // namespace lockstep::comm
