// Suggestions for a mistyped name: the nearest known name.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Insertions, deletions, changes and swaps of neighbours that turn a into b (optimal string
// alignment distance), in bytes. Costs a.size() * b.size().
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known name with the least distance, the first of equals; none if the distance is too large
// for a typing error (more than a third of the longer name; case is ignored).
std::optional<std::string_view> nearest(std::string_view name,
                                        const std::vector<std::string_view>& known);

// ", did you mean 'nodes'?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace lockstep
