#include "comm/fabric/shm/commons.h"

namespace lockstep {

Result<Commons> Commons::create(int ranks) {
  auto memfd =
      TRY(make_shared_memory("lockstep-commons", static_cast<std::size_t>(ranks) * sizeof(Seat)));
  auto mapping = TRY(SharedMapping::of(memfd));
  return Commons(std::move(memfd), std::move(mapping));
}

Result<Commons> Commons::map(const Fd& memfd, int ranks) {
  auto mapping = TRY(SharedMapping::of(memfd));
  if (mapping->size() != static_cast<std::size_t>(ranks) * sizeof(Seat))
    return Error{Code::corrupt,
                 "a peer's commons have another layout; the ranks run different versions"};
  return Commons(Fd(), std::move(mapping));
}

}  // namespace lockstep
