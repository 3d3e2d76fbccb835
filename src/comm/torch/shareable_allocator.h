// Torch's allocator of CPU memory, so that large tensors can move into the shared heap at their
// collectives (comm/fabric/shm/shareable_memory.h). Their memory comes from torch's function, as
// before, but begins and ends at a page. Small tensors stay with torch's own allocator.
#pragma once

#include <cstddef>

#include "base/os/environment.h"

namespace lockstep::comm {

// The size from which tensors can move. Below, a copy costs less than the wait for others.
inline constexpr std::size_t kShareableBytes = std::size_t{256} << 10;

// LOCKSTEP_ZERO_COPY: 1 or 0; unset: under `lockstep run`.
bool wants_zero_copy(const Environment& environment);

// Makes it the allocator of tensors that are created from now on. Does nothing if the program has
// an allocator of its own. Not for two threads at once.
void install_shareable_allocator();

}  // namespace lockstep::comm
