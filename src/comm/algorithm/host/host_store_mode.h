// How the ranks of a host store the results of a call: through the cache, or with non-temporal
// stores. A store through the cache reads every line before it overwrites it.
//
// Measured on third- and fifth-generation EPYCs (32 MiB of last-level cache), with ranks that write
// their operands before a call and read the results after it. The C library does not help: memcpy
// uses non-temporal stores above 3/4 of the last-level cache size, and a virtual machine reports
// the sum of all sockets.
#pragma once

#include <concepts>
#include <cstddef>

#include "comm/reduction/reduction.h"

namespace lockstep::comm {

// Stores results to the rank's own memory: the cache helps if the results are still in it when they
// are used. traffic: bytes that all ranks together read and write.
inline StoreMode store_mode_for_own(std::size_t traffic) {
  constexpr std::size_t kCached = std::size_t{16} << 20;
  return traffic > kCached ? StoreMode::non_temporal : StoreMode::cached;
}

// Stores to the memory of other ranks. A rank that shares this rank's last-level cache finds its
// results there. Any other rank reads them from that cache, which takes twice as long as from
// memory. near: HostGroup::shares_cache(); not called for little data. Ranks may choose
// differently: the bits are the same.
template <std::predicate Near>
StoreMode store_mode_for_others(std::size_t traffic, Near near) {
  constexpr std::size_t kCached = std::size_t{1} << 20;
  if (traffic <= kCached) return StoreMode::cached;
  return near() ? store_mode_for_own(traffic) : StoreMode::non_temporal;
}

}  // namespace lockstep::comm
