// Amounts of resources as Kubernetes writes them.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep::engine {

// The value of a quantity: 7.91 for "7910m", 1024 for "1Ki", 1e9 for "1G" or "1e9". Nothing if it
// is none.
std::optional<double> parse_node_amount(std::string_view quantity);

}  // namespace lockstep::engine
