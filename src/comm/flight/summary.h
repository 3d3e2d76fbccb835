// A summary of a flight record. A rank sends it to the others when their group fails, and to a
// client on another machine that requests it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lockstep::comm {

// The newest collectives, the oldest sends and receives that have not succeeded, and the newest of
// all that have.
inline constexpr std::size_t kSummaryCollectives = 12;
inline constexpr std::size_t kSummaryPointToPoint = 8;
inline constexpr std::size_t kSummaryEnded = 2;
// The maximum size.
inline constexpr std::size_t kSummaryBytes = 8192;

// record: complete, from FlightRecorder::snapshot(). The result is also a flight record
// (parse_flight).
std::vector<std::byte> summarize_flight_record(std::span<const std::byte> record);

// record: any that parse_flight() accepts. Returns at most `most` operations. Half are the oldest
// that have not succeeded, for which other ranks may wait; the rest are the newest. The result is
// also a flight record.
std::vector<std::byte> flight_excerpt(std::span<const std::byte> record, std::size_t most);
// The number of operations in an excerpt of this size; 0: none, and no header either.
std::size_t operations_in_excerpt(std::size_t bytes);

}  // namespace lockstep::comm
