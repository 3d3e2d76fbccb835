// The facts of a host that joined: what it is on the map. The rows of nodes, moves and orphans name
// devices by their index in the facts. So other devices replace them only when nothing refers to
// them any more.
#pragma once

#include <optional>
#include <string>

#include "map/map.h"
#include "platform/core/step/handlers/draft.h"

namespace lockstep::step {

// A run or an orphan that has devices of the host, for people: "demo/1", "orphan act/2". A gang
// holds the devices of all its nodes until the last of them has ended.
std::optional<std::string> user_of_host(const Draft& draft, const std::string& host);

// The host has these devices from now on. A host that is new on the map takes no run until
// HostsSeen: first the engine lists its nodes. The host's row must exist.
void set_facts(Draft& draft, const std::string& host, map::Host facts);

// Takes the next facts of each host that no run uses any more.
void adopt_next_facts(Draft& draft);

}  // namespace lockstep::step
