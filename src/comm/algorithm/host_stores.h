// How the ranks of a host store what a call gives them: through the cache, or past it. Who stores
// through it has every line read before it is overwritten.
//
// Measured on an EPYC of the fifth generation (1 MiB a core, 32 MiB for all), with ranks that
// write their operands before a call and read the results after it. The C library is of no help:
// memcpy stores past the cache from 3/4 of the last one on, and a virtual machine is told that of
// all sockets together.
#pragma once

#include <cstddef>

#include "comm/reduction/reduction.h"

namespace lockstep {

// A rank's results into its own memory: the cache pays as long as they are there when they are
// used. traffic: bytes that all ranks together read and write.
inline Stores stores_into_own(std::size_t traffic) {
  constexpr std::size_t kCached = std::size_t{16} << 20;
  return traffic > kCached ? Stores::past_cache : Stores::cached;
}

// Into the memory of others, who would have to fetch them from this rank's cache: that takes longer
// than from memory.
inline Stores stores_into_others(std::size_t traffic) {
  constexpr std::size_t kCached = std::size_t{2} << 20;
  return traffic > kCached ? Stores::past_cache : Stores::cached;
}

}  // namespace lockstep
