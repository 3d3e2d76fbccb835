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

// The file with what was measured in place of what it said of that; all else stays, comments
// included, where the file is written in lines as dump_map writes them. Else (in braces, say) it is
// written anew, without comments.
struct RewrittenMap {
  std::string words;
  bool kept_comments = true;
};
Result<RewrittenMap> rewrite_measured(std::string_view words, std::string_view file_name,
                                      const Measured& measured);

Json map_to_json(const Map& map);
Result<Map> map_from_json(const Json& json);

}  // namespace lockstep
