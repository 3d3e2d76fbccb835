// copy_bytes: memcpy that also takes the null pointer of an empty buffer.
#pragma once

#include <cstddef>
#include <cstring>

namespace lockstep::comm {

inline void copy_bytes(std::byte* to, const std::byte* from, std::size_t count) {
  if (count > 0) std::memcpy(to, from, count);
}

}  // namespace lockstep::comm
