// What the ranks of a node recorded of their collectives (comm/flight), as it travels to the
// daemon, which people ask on another machine.
#pragma once

#include <cstddef>
#include <filesystem>

#include "base/units.h"
#include "platform/api/agent_messages.h"

namespace lockstep {

// Before base64: it goes with a call that takes 4 MiB, and the daemon reads it on its one thread.
inline constexpr std::size_t kFlightBytesMost = 768 << 10;

// Where the records of a node's ranks are.
struct FlightPlace {
  std::filesystem::path folder;
  // A folder that the user named may have those of other nodes and of earlier runs, too: only those
  // count that ranks first_rank, first_rank + 1, ... began since then.
  bool is_shared = false;
  int first_rank = 0;
  int ranks = 0;
  Time since{};
};

// Each as much as has room, by files in the order of their names; records that cannot be read
// (half-written files, others' files) are passed over. Takes a millisecond or two a record.
api::FlightDelivery pack_flight(const FlightPlace& place,
                                std::size_t bytes_most = kFlightBytesMost);

}  // namespace lockstep
