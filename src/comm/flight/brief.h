// A flight record in brief: what a rank tells the others of itself when their group fails.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep {

// The newest collectives, the oldest sends and receives that have not ended well, and the newest of
// all that have.
inline constexpr std::size_t kBriefCollectives = 12;
inline constexpr std::size_t kBriefExchanges = 8;
inline constexpr std::size_t kBriefEnded = 2;
// At most so many bytes.
inline constexpr std::size_t kBriefBytes = 8192;

// Of a whole record, as FlightRecorder::snapshot() gives it. A flight record, too (parse_flight).
std::vector<std::byte> brief_flight(std::span<const std::byte> record);

}  // namespace lockstep
