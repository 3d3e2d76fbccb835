// Messages of Gloo, NCCL and torch's store for a broken connection or a time-out. A script that
// uses them reports no fault, and its ranks exit with code 1 as after an error of the program.
// These lines distinguish the two cases. The list is narrow: a line must name both the library and
// the failure.
#pragma once

#include <string_view>

#include "report/fault/fault.h"

namespace lockstep::agent {

// connection_lost, timed_out, or none.
report::Fault network_fault_in(std::string_view line);

}  // namespace lockstep::agent
