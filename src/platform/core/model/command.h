// What an agent is told in the answer to its heartbeat: a pure function of the state, so that nothing is lost when
// the daemon or an answer is.
#pragma once

#include <string>

#include "platform/core/model/state.h"

namespace lockstep {

enum class CommandKind { none, start, stop, leave };
std::string_view text(CommandKind kind);

// none: carry on. start: start the ranks with these addresses. stop: signal the ranks, kill them after the grace
// period, report, then wait for leave. leave: everything is known; clean up and exit (also for what is fenced).
struct Command {
  CommandKind kind = CommandKind::none;
  std::string master_address;
  int master_port = 0;
  std::string rendezvous;  // host:port
  Duration grace{};
};

Command command_for(const State& state, const NodeId& node);

}  // namespace lockstep
