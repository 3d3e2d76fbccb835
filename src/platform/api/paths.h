// Targets of calls: a route's pattern with its parameters filled in, and its query.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::api {

// "/a/{b}" is "a", "{b}".
std::vector<std::string_view> segments_of(std::string_view pattern);

using Query = std::vector<std::pair<std::string, std::string>>;

// "/api/v1/runs/{project}/{number}" with ("demo", "1") and {{"wait", "3"}}:
// "/api/v1/runs/demo/1?wait=3". Takes one value per parameter of the pattern, and encodes them.
std::string target_of(std::string_view pattern, const std::vector<std::string>& parameters,
                      const Query& query = {});

// Sets the values of the pattern's parameters; false if the path does not match.
bool match_path(std::string_view pattern, const std::vector<std::string>& path,
                std::vector<std::string>& parameters);

}  // namespace lockstep::api
