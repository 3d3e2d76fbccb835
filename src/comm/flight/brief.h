// A flight record in brief: what a rank tells the others of itself when their group fails, and what
// travels to who asks from another machine.
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

// Of any record that parse_flight takes, at most so many operations: of half of them the oldest
// that have not ended well, for which somebody may wait, and else the newest. A record, too.
std::vector<std::byte> flight_excerpt(std::span<const std::byte> record, std::size_t most);
// How many operations go into an excerpt of so many bytes; 0: none, and no header either.
std::size_t operations_in_excerpt(std::size_t bytes);

}  // namespace lockstep
