#include "comm/fabric/shm/shared_segment.h"

namespace lockstep::comm {

Result<SharedSegment> SharedSegment::create(int ranks) {
  auto memfd = TRY(
      make_shared_memory("lockstep-commons", static_cast<std::size_t>(ranks) * sizeof(RankSlot)));
  auto mapping = TRY(SharedMapping::map_shared(memfd));
  return SharedSegment(std::move(memfd), std::move(mapping));
}

Result<SharedSegment> SharedSegment::map(const Fd& memfd, int ranks) {
  auto mapping = TRY(SharedMapping::map_shared(memfd));
  if (mapping->size() != static_cast<std::size_t>(ranks) * sizeof(RankSlot))
    return Error{Code::corrupt,
                 "a peer's commons have another layout; the ranks run different versions"};
  return SharedSegment(Fd(), std::move(mapping));
}

}  // namespace lockstep::comm
