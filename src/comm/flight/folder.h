// The flight records in a folder: ours, and the dumps of torch's flight recorder.
#pragma once

#include <filesystem>
#include <vector>

#include "comm/flight/log.h"

namespace lockstep::comm {

struct FlightFolder {
  std::vector<FlightLog> logs;
  std::vector<Error> refused;  // files that could not be read
};
// All *.flight files in it, with the known state of their processes, and all dumps of torch, whose
// names end in a rank. Code::not_found when there are none.
Result<FlightFolder> read_flight_folder(const std::filesystem::path& folder);

}  // namespace lockstep::comm
