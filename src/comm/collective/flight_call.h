// The representation of a call in the flight record.
#pragma once

#include <cstddef>

#include "comm/fabric/link.h"
#include "comm/flight/recorder.h"

namespace lockstep::comm {

// The names for the codes in headers.
const FlightNames& flight_names();
// For a collective.
FlightCall flight_call(const MessageHeader& header);
FlightCall flight_send(std::size_t bytes, int peer, int tag);
// peer may be kAnyPeer.
FlightCall flight_recv(std::size_t bytes, int peer, int tag);

}  // namespace lockstep::comm
