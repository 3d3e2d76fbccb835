// libfabric brings along libinfinipath, which takes over a program's signals as it is loaded: its
// handler for SIGTERM calls exit(1), whatever the program was doing. What it replaced is lost, so a
// program that loads this library late, as Python does, must set IPATH_NO_BACKTRACE before.
#pragma once

namespace lockstep {

// Gives the signals that libinfinipath holds their defaults; leaves all others alone.
void put_back_signals();

}  // namespace lockstep
