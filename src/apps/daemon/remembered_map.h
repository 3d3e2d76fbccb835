// The map of a cluster that another system manages, kept for a start while that does not answer.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::cli {

// A map that was found is written to the file. If the system, called `name`, does not answer
// (Code::unavailable), it is the map of the last start.
Result<map::ClusterMap> remembered_map(Result<map::ClusterMap> found,
                                       const std::filesystem::path& file, std::string_view name);

}  // namespace lockstep::cli
