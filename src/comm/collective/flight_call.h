// What a call is in the flight record.
#pragma once

#include <cstddef>

#include "comm/fabric/link.h"
#include "comm/flight/recorder.h"

namespace lockstep {

// The words for what headers hold, by their codes.
const FlightNames& flight_names();
// Of a collective.
FlightCall flight_call(const Header& header);
FlightCall flight_send(std::size_t bytes, int peer, int tag);
// peer may be kAnyPeer.
FlightCall flight_recv(std::size_t bytes, int peer, int tag);

}  // namespace lockstep
