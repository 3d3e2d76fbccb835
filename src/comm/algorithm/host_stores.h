// How the ranks of a host store what a call gives them: through the cache, or past it. Who stores
// through it has every line read before it is overwritten.
//
// Measured on EPYCs of the third and fifth generation (32 MiB of last cache), with ranks that write
// their operands before a call and read the results after it. The C library is of no help: memcpy
// stores past the cache from 3/4 of the last one on, and a virtual machine is told that of all
// sockets together.
#pragma once

#include <concepts>
#include <cstddef>

#include "comm/reduction/reduction.h"

namespace lockstep {

// A rank's results into its own memory: the cache pays as long as they are there when they are
// used. traffic: bytes that all ranks together read and write.
inline Stores stores_into_own(std::size_t traffic) {
  constexpr std::size_t kCached = std::size_t{16} << 20;
  return traffic > kCached ? Stores::past_cache : Stores::cached;
}

// Into the memory of others. Who shares this rank's last cache has its results there; anybody else
// fetches them from it, which takes twice as long as from memory. near: HostGroup::near(); little
// is not worth the question. Ranks may choose differently: the bits are the same.
template <std::predicate Near>
Stores stores_into_others(std::size_t traffic, Near near) {
  constexpr std::size_t kCached = std::size_t{1} << 20;
  if (traffic <= kCached) return Stores::cached;
  return near() ? stores_into_own(traffic) : Stores::past_cache;
}

}  // namespace lockstep
