// Packs the flight records of a node's ranks (comm/flight) for the daemon, from which users on
// other machines can read them.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/units.h"
#include "platform/api/agent_messages.h"

namespace lockstep::agent {

// Before base64: the call takes at most 4 MiB, and the daemon reads it on its single thread.
inline constexpr std::size_t kFlightBytesMax = 768 << 10;

// The location of the records of a node's ranks.
struct FlightSource {
  std::filesystem::path folder;
  // A folder that the user named may also have records of other nodes and earlier runs. Only those
  // count that ranks first_rank, first_rank + 1, ... began since `since`.
  bool is_shared = false;
  int first_rank = 0;
  int ranks = 0;
  Time since{};
};

// Each record gets as much as fits, by files in the order of their names. Unreadable records
// (incomplete files, other files) are skipped. Takes a millisecond or two per record.
api::FlightDelivery pack_flight_records(const FlightSource& source,
                                        std::size_t bytes_most = kFlightBytesMax);

}  // namespace lockstep::agent
