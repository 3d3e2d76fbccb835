// The libfabric providers of this host.
#pragma once

#include <string>
#include <vector>

namespace lockstep::comm {

// The names of the providers that find a device here, such as "verbs"; empty without libfabric.
// Loads libfabric: a fifth of a second.
std::vector<std::string> usable_providers();

}  // namespace lockstep::comm
