// The memory layout of a slot, for links whose messages are sent as one block. The header directly
// precedes the payload, so one address identifies both, and the payload is aligned for vector code.
#pragma once

#include <cstddef>

#include "comm/fabric/link.h"

namespace lockstep::comm {

inline constexpr std::size_t kPayloadOffset = 64;
inline constexpr std::size_t kHeaderOffset = kPayloadOffset - sizeof(MessageHeader);
inline constexpr std::size_t kSlotSpace = kPayloadOffset + kSlotBytes;

}  // namespace lockstep::comm
