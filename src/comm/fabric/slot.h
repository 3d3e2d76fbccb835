// A slot in memory, of a link whose messages travel whole: the header stands right before the
// payload, so that one address holds both, and the payload is aligned for vector code.
#pragma once

#include <cstddef>

#include "comm/fabric/link.h"

namespace lockstep {

inline constexpr std::size_t kPayloadOffset = 64;
inline constexpr std::size_t kHeaderOffset = kPayloadOffset - sizeof(Header);
inline constexpr std::size_t kSlotSpace = kPayloadOffset + kSlotBytes;

}  // namespace lockstep
