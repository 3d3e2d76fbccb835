// What a call is in the flight record.
#pragma once

#include "comm/fabric/link.h"
#include "comm/flight/recorder.h"

namespace lockstep {

// The words for what headers hold, by their codes.
const FlightNames& flight_names();
FlightCall flight_call(const Header& header);

}  // namespace lockstep
