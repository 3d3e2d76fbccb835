// Operations, ranks and durations as text.
#pragma once

#include <string>
#include <vector>

#include "comm/flight/log.h"

namespace lockstep::comm {

// "#812 reduce_scatter(layers.7, 4.2 MiB)"
std::string short_call_text(const FlightOperation& operation);
// All that must be the same on all ranks: "reduce_scatter(layers.7, float32 sum, 4404019 bytes)"
std::string full_call_text(const FlightOperation& operation);
// "rank 3"; "ranks 0, 1 and 3"; "ranks 0, 1, 2, 3 and 60 more"
std::string ranks_text(const std::vector<int>& ranks);
// "; its process 4711 on vm-1 has ended"; empty where it runs or its state is unknown.
std::string process_text(const FlightLog& log);
// "0s", "740ns", "12.4ms", "31.0s"; never negative: clocks of two hosts differ a little.
std::string duration_text(Nanoseconds span);
// 0.844 is 84.
int percent_of(double share);

}  // namespace lockstep::comm
