// What an agent is told in the answer to its heartbeat: a pure function of the state, so that
// nothing is lost when the daemon or an answer is.
#pragma once

#include <string>
#include <string_view>

#include "platform/core/model/state.h"

namespace lockstep {

enum class CommandKind { none, start, stop, leave };
constexpr auto enum_names(CommandKind) {
  return names<CommandKind>({{CommandKind::none, "none"},
                             {CommandKind::start, "start"},
                             {CommandKind::stop, "stop"},
                             {CommandKind::leave, "leave"}});
}
std::string_view text(CommandKind kind);

// Between the signal that asks ranks to end and the one that makes them.
inline constexpr Duration kGrace = std::chrono::seconds(10);

// none: carry on; after `start` it says that the ranks of all nodes run, from when on the running
// time counts. start: start the ranks with these addresses (once; it is repeated until all run).
// stop: start no ranks any more, signal those there are, kill them after the grace period,
// report state `stopping` and the ranks' ends, then wait for leave. leave: everything is known, or
// the node is fenced; end what is left and exit.
struct Command {
  CommandKind kind = CommandKind::none;
  std::string master_address{};
  int master_port = 0;
  std::string rendezvous{};  // host:port
  Duration grace{};
  // The store does not know the node. It goes on as if no daemon were there: keeps what it
  // collects, minds its time itself, and calls seldom.
  bool orphaned = false;

  bool operator==(const Command&) const = default;
};

Command command_for(const State& state, const NodeName& node);

// Nothing more is to be learnt of the node's ranks: they have all ended, or it started none and
// never will, or the node is lost or released.
bool accounted(const Node& node);

}  // namespace lockstep
