// HostSlices: the steps of one host's ranks, part by part (buffer_parts.h), in a collective over
// several hosts. Each rank has a buffer. Some of the host's ranks are its leaders. Each leader has
// a slice of the buffer, which it exchanges with the leaders of the same slice on other hosts.
//   reduce             each leader gets its slice's reduction over all ranks of the host, in their
//                      order
//   gather_slices      one rank gets each leader's result for its slice
//   broadcast_part     all get one rank's buffer
//   all_gather_slices  all get each leader's slice
// All ranks of the host call the same of these in the same order.
//   inline     up to kInlineBytes: there is one leader and one part, and each step is one wait
//   zero-copy  all buffers in the shared heap: each leader reads and writes its slice of all
//              buffers in place, and does not wait before leave()
//   staged     buffers elsewhere: host_staging.h
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/exchange/slice.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/algorithm/host/host_staging.h"
#include "comm/fabric/link.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {

// The number of slices of a buffer, and the parts of each slice: the same on all hosts.
struct Slicing {
  std::size_t leaders = 1;  // of each host
  std::size_t parts = 1;
};
Slicing slicing_for(std::size_t bytes, const GroupShape& group);

class HostSlices {
 public:
  // host: null when this rank is alone on its host; then the class does nothing. The leaders are
  // the local rank `first` and those after it, with wrap-around.
  HostSlices(HostGroup* host, const MessageHeader& call, std::span<std::byte> buffer,
             std::size_t element, const Slicing& slicing, std::size_t first = 0);

  Result<void> enter();
  Result<void> reduce(std::size_t part, DataType type, ReduceOp op);  // in the leader's own buffer
  // The same, but no buffer changes. The result is in `scratch`, which holds a part, or in place
  // when this rank is alone. Null on a rank that is not a leader.
  Result<const std::byte*> reduce_to_scratch(std::size_t part, DataType type, ReduceOp op,
                                             std::byte* scratch);
  // Where a leader puts the result for `taker`: directly in its buffer if possible, else in
  // `scratch`.
  std::byte* result_address(std::size_t part, std::size_t taker, std::byte* scratch) const;
  // made: the result of result_address(); ignored on a rank that is not a leader.
  Result<void> gather_slices(std::size_t part, std::size_t taker, const std::byte* made);
  Result<void> broadcast_part(std::size_t part, std::size_t giver);  // local rank
  Result<void> all_gather_slices(std::size_t part);
  Result<void> leave();  // when it returns, no other rank accesses this rank's buffer any more

  // This rank's index among the leaders. For a rank that is not a leader: the leader count or more.
  std::size_t leader_index() const { return leader_of(local_rank_); }
  bool is_leader() const { return leader_index() < slicing_.leaders; }
  ByteRange own_slice() const { return slice_of(leader_index()); }

 private:
  enum class Path { single_rank, inline_copy, zero_copy, staged };

  std::size_t leader_of(std::size_t local_rank) const {
    return (local_rank + ranks_ - first_) % ranks_;
  }
  ByteRange slice_of(std::size_t leader) const;
  // The range of a slice, as in BufferParts; empty on a rank that is not a leader.
  ByteRange part_of(std::size_t leader, std::size_t part) const;
  Result<void> reduce_to(std::byte* to, std::size_t part, DataType type, ReduceOp op);
  bool find_buffers();
  void copy_from(std::size_t local_rank, ByteRange range) const;

  HostGroup* const host_;
  const MessageHeader call_;
  const std::span<std::byte> buffer_;
  const std::size_t element_;
  const Slicing slicing_;
  const std::size_t ranks_, local_rank_, first_;
  Path path_ = Path::single_rank;
  PerLocalRank<std::byte*> buffers_;  // where all are zero-copy
};

}  // namespace lockstep::comm
