// Targets of calls: a route's pattern with its places filled in, and its query.
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
// "/api/v1/runs/demo/1?wait=3". As many words as places; all of them encoded.
std::string target_of(std::string_view pattern, const std::vector<std::string>& words,
                      const Query& query = {});

// The words at the pattern's places, or nothing where the path is another.
bool matches(std::string_view pattern, const std::vector<std::string>& path,
             std::vector<std::string>& words);

}  // namespace lockstep::api
