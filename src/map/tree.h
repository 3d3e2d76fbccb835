// The Map for the terminal: as a tree, one line a part, with totals.
#pragma once

#include <string>

#include "map/map.h"

namespace lockstep::map {

enum class TreeStyle { utf8, ascii };

// Ends with a newline. Unknown values are shown as unknown; measured ones are in a line below the
// tree.
std::string text(const ClusterMap& map, TreeStyle style = TreeStyle::utf8);
// "10.0 Gbit/s, 5us"; "unknown".
std::string text(const LinkSpeed& link);

}  // namespace lockstep::map
