// HostSlices: what the ranks of one host do, part by part (parts.h), with a buffer that each of
// them has, in a collective over several hosts. Some of the host's ranks are its leaders; to each
// belongs a slice of the buffer, which it exchanges with the leaders of the same slice on other
// hosts.
//   reduce  each leader gets its slice's reduction over all ranks of the host, in their order
//   hand    one rank gets what each leader has made of its slice
//   give    all get one rank's buffer
//   spread  all get each leader's slice
// All ranks of the host call the same of these in the same order.
//   brought  up to kBringBytes: there is one leader and one part, and each act is one wait
//   lent     all buffers in lent memory: each leader reads and writes its slice of all buffers
//   where
//            they lie, and waits for nobody before leave()
//   staged   buffers elsewhere: host_staging.h
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/host_staging.h"
#include "comm/algorithm/slice.h"
#include "comm/fabric/link.h"
#include "comm/reduction/reduction.h"

namespace lockstep {

// Into how many slices a buffer is cut, each of as many parts: the same on all hosts.
struct Slicing {
  std::size_t leaders = 1;  // of each host
  std::size_t parts = 1;
};
Slicing slicing_for(std::size_t bytes, const GroupShape& group);

class HostSlices {
 public:
  // host: null when this rank is alone on its host; then it does nothing. Places count from `first`
  // on, around: the leaders are that one and those after it.
  HostSlices(HostGroup* host, const Header& call, std::span<std::byte> buffer, std::size_t element,
             const Slicing& slicing, std::size_t first = 0);

  Result<void> enter();
  Result<void> reduce(std::size_t part, DataType type, ReduceOp op);  // in the leader's own buffer
  // The same, which leaves all buffers as they are: in `scratch`, which holds a part, or where it
  // lies when this rank is alone. Null for who leads not.
  Result<const std::byte*> reduce_aside(std::size_t part, DataType type, ReduceOp op,
                                        std::byte* scratch);
  // Where a leader puts what is to be handed to a place: there already, else in `scratch`.
  std::byte* room_for(std::size_t part, std::size_t taker, std::byte* scratch) const;
  // made: what room_for() gave; for who leads not anything.
  Result<void> hand(std::size_t part, std::size_t taker, const std::byte* made);
  Result<void> give(std::size_t part, std::size_t giver);  // place
  Result<void> spread(std::size_t part);
  Result<void> leave();  // when it returns, nobody touches the others' buffers any more

  // This rank's number among the leaders; as many as there are, or more, if it is none.
  std::size_t leader() const { return leader_of(place_); }
  bool leads() const { return leader() < slicing_.leaders; }
  ByteRange own_slice() const { return slice_of(leader()); }

 private:
  enum class Path { alone, brought, lent, staged };

  std::size_t leader_of(std::size_t place) const { return (place + ranks_ - first_) % ranks_; }
  ByteRange slice_of(std::size_t leader) const;
  // Of a slice, as Parts has it; empty for who leads not.
  ByteRange part_of(std::size_t leader, std::size_t part) const;
  Result<void> reduce_to(std::byte* to, std::size_t part, DataType type, ReduceOp op);
  bool find_buffers();
  void copy_from(std::size_t place, ByteRange range) const;

  HostGroup* const host_;
  const Header call_;
  const std::span<std::byte> buffer_;
  const std::size_t element_;
  const Slicing slicing_;
  const std::size_t ranks_, place_, first_;
  Path path_ = Path::alone;
  PerPlace<std::byte*> buffers_;  // where all are lent
};

}  // namespace lockstep
