// How results are stored: into the cache, for a reader that uses them next; or with non-temporal
// stores, which avoid reading the overwritten data. Non-temporal is for destinations that are none
// of the sources. Destinations with different alignment use the cache in any case.
#pragma once

#include <cstdint>

namespace lockstep::comm {

enum class StoreMode : std::uint8_t { cached, non_temporal };

}  // namespace lockstep::comm
