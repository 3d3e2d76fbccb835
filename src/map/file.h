// The Map as a file that people write, and as Json for the API. docs/design/map.md shows one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "map/map.h"
#include "text/json.h"

namespace lockstep {

// YAML (or JSON); checked. Errors name file, line and field: "cluster.yaml:14:
// pods[0].leaves[1].hosts[2].to_leaf.bandwidth: '10 parsecs' is not a bandwidth; write ...".
Result<Map> parse_map(std::string_view words, std::string_view file_name);
// Reads back as the same map.
std::string dump_map(const Map& map);

Json map_to_json(const Map& map);
Result<Map> map_from_json(const Json& json);

}  // namespace lockstep
