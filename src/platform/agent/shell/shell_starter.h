// ShellStarter: starts a shell for one stream and returns the end of a stream socket (one of a
// socketpair) that speaks the shell's protocol. Called on a thread of the stream, at the same time
// as others. The shell ends when that end is closed, and with the node. An error is shown to the
// user: it names the remedy.
#pragma once

#include <functional>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::agent {

using ShellStarter = std::function<Result<Fd>()>;

}  // namespace lockstep::agent
