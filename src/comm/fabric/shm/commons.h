// Commons: the memory that the ranks of one host share for their collectives: a seat for each rank
// of the group, which that rank alone writes and all others read. Zeroes, which new shared memory
// holds, are its valid initial state; seats never used take no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/mapping.h"

namespace lockstep {

// What a rank says as it enters a call; one cache line, so that small data travels with it.
struct alignas(64) Entry {
  std::atomic<std::uint64_t> number;  // of the call; stored last
  Header header;
  std::byte inline_data[24];  // the data itself, or where it lies
};
static_assert(sizeof(Entry) == 64);

struct Seat {
  static constexpr std::size_t kSlotBytes = 32 * 1024;
  static constexpr std::size_t kStagingBytes = 1024 * 1024;

  Entry entries[2];                              // of even and of odd calls
  alignas(64) std::atomic<std::uint64_t> stage;  // counts what this rank has reached
  // Written in each call that lends, for others to see how long it takes to read what this rank has
  // just written. Apart, so that no processor fetches it along with what is read before.
  alignas(2048) std::atomic<std::uint64_t> trace;
  alignas(4096) std::byte slots[2][kSlotBytes];  // of even and of odd calls
  alignas(4096) std::byte staging[2][kStagingBytes];
};

class Commons {
 public:
  static Result<Commons> create(int ranks);
  // Error corrupt when it is not that of a group of so many ranks.
  static Result<Commons> map(const Fd& memfd, int ranks);

  Seat& seat(int rank) const { return reinterpret_cast<Seat*>(mapping_->data())[rank]; }
  const Fd& memfd() const { return memfd_; }  // of the one that was created here

 private:
  Commons(Fd memfd, std::shared_ptr<SharedMapping> mapping)
      : memfd_(std::move(memfd)), mapping_(std::move(mapping)) {}
  Fd memfd_;
  std::shared_ptr<SharedMapping> mapping_;  // shared with ranks that are threads
};

}  // namespace lockstep
