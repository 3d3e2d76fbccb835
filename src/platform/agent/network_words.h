// NetworkWords: what Gloo, NCCL and torch's store print when a connection breaks or an operation
// times out. A script over them reports no fault, and its ranks exit with code 1 as after a mistake
// of the program; these lines tell the two apart. The list is narrow: a line must name the library
// as well as the failure.
#pragma once

#include <string_view>

#include "report/fault/fault.h"

namespace lockstep {

// connection_lost, timed_out, or none.
Fault fault_in(std::string_view line);

}  // namespace lockstep
