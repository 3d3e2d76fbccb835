// relay(): one end of a stream. Copies bytes between a local socket and the stream's other end, in
// frames (frame.h), on the calling thread.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "net/http/upgrade.h"

namespace lockstep::net {

struct RelayTimes {
  Duration ping = std::chrono::seconds(20);     // without another frame
  Duration silence = std::chrono::seconds(75);  // of the other end; then it counts as lost
};

// Returns when both ends have ended, or when the local socket failed, which the other end is told.
// Errors: unavailable (the connection was cut before the other end had ended, or was silent for too
// long), peer_lost (the other end reports a failure: its message), corrupt (a frame is wrong),
// cancelled (`stop`). `local` is a connected stream socket; each side may close its half first.
// The connection is one of a client.
Result<void> relay(UpgradedConnection connection, Fd local, std::stop_token stop = {},
                   const RelayTimes& times = {});

// Tells the other end that the local side of the stream failed, and closes the connection.
void reset_stream(UpgradedConnection connection, const std::string& message);

}  // namespace lockstep::net
