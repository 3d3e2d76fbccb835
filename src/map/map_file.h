// The Map as a configuration file, and as Json for the API. docs/design/map.md shows one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "map/map.h"
#include "text/json.h"

namespace lockstep::map {

// YAML (or JSON); checked. Errors name file, line and field: "cluster.yaml:14:
// pods[0].leaves[1].hosts[2].to_leaf.bandwidth: '10 parsecs' is not a bandwidth; write ...".
Result<ClusterMap> parse_map(std::string_view input, std::string_view file_name);
// Parses back to the same map.
std::string dump_map(const ClusterMap& map);

// The file with its measurements replaced; the rest stays, comments included, if the file is laid
// out in lines as dump_map writes them. Otherwise (in braces, for example) the whole file is
// rewritten, without comments.
struct RewrittenMap {
  std::string text;
  bool kept_comments = true;
};
Result<RewrittenMap> rewrite_measured(std::string_view input, std::string_view file_name,
                                      const Measured& measured);

Json map_to_json(const ClusterMap& map);
Result<ClusterMap> map_from_json(const Json& json);

}  // namespace lockstep::map
