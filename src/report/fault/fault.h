// Fault: a rank's report to its agent when it must end and its own program did not fail. The names
// are those of the report socket, of an agent's call and of the store.
#pragma once

#include "text/record.h"

namespace lockstep::report {

enum class Fault {
  none,
  connection_lost,  // to another rank, by a cut link or by that rank's end
  timed_out,        // a collective waited for another rank longer than its timeout
  superseded,       // a newer attempt or another run writes the checkpoints now
  refused,          // another run has written its checkpoints there already
  out_of_memory,    // its node has used more than its limit; the agent reports it for the rank
};
constexpr auto enum_names(Fault) {
  return names<Fault>({{Fault::none, "none"},
                       {Fault::connection_lost, "connection_lost"},
                       {Fault::timed_out, "timed_out"},
                       {Fault::superseded, "superseded"},
                       {Fault::refused, "refused"},
                       {Fault::out_of_memory, "out_of_memory"}});
}

}  // namespace lockstep::report
