// How results are stored: into the cache, for who uses them next; or past it, straight to memory,
// which spares reading what is overwritten. Past it is for destinations that are none of the
// sources. Those that are aligned differently go through the cache all the same.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Stores : std::uint8_t { cached, past_cache };

}  // namespace lockstep
