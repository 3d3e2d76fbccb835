// HostState: may the scheduler place runs on a host?
#pragma once

#include "text/record.h"

namespace lockstep::model {

// open: any run may use it. avoided: only if no other host has capacity. closed: no new run, and
// running ones stay. drained: closed, and runs that can be moved leave it.
enum class HostState { open, avoided, closed, drained };
constexpr auto enum_names(HostState) {
  return names<HostState>({{HostState::open, "open"},
                           {HostState::avoided, "avoided"},
                           {HostState::closed, "closed"},
                           {HostState::drained, "drained"}});
}
// The displayed name: the command that closes a host is `lockstep host cordon`.
constexpr std::string_view displayed_host_state(HostState state) {
  return state == HostState::closed ? "cordoned" : lockstep::name_of(state);
}

}  // namespace lockstep::model
