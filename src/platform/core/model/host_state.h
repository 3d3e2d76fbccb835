// Whether a host is given to runs.
#pragma once

#include "text/record.h"

namespace lockstep {

// open: to anyone; avoided: only if nothing else has room; closed: to nobody new, and whoever is
// there stays; drained: closed, and who can be moved goes.
enum class HostState { open, avoided, closed, drained };
constexpr auto enum_names(HostState) {
  return names<HostState>({{HostState::open, "open"},
                           {HostState::avoided, "avoided"},
                           {HostState::closed, "closed"},
                           {HostState::drained, "drained"}});
}
// As people read it: the command that closes a host is `lockstep host cordon`.
constexpr std::string_view state_in_words(HostState state) {
  return state == HostState::closed ? "cordoned" : name_of(state);
}

}  // namespace lockstep
