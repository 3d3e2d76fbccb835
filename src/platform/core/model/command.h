// The command in the answer to an agent's heartbeat. It is a pure function of the state, so a lost
// daemon or a lost answer loses no command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platform/core/model/run.h"
#include "platform/core/model/settings/settings.h"
#include "platform/core/model/state.h"

namespace lockstep::model {

enum class CommandKind { none, start, stop, leave };
constexpr auto enum_names(CommandKind) {
  return names<CommandKind>({{CommandKind::none, "none"},
                             {CommandKind::start, "start"},
                             {CommandKind::stop, "stop"},
                             {CommandKind::leave, "leave"}});
}
std::string_view text(CommandKind kind);

// Between the signal that asks ranks to end and SIGKILL, until an agent knows that of its run.
inline constexpr Duration kGracePeriod = kGracePeriodDefault;

// That of the run.
Duration grace_period_of(const RunSpec& spec, const Settings& settings);
Duration orphan_grace_period(const Orphan& orphan, const Settings& settings);

// none: continue. After `start` it means that the ranks of all nodes run; the running time counts
// from then on. start: start the ranks with these addresses, once; the command is repeated until
// all run. stop: start no more ranks, signal the existing ones and kill them after the grace
// period. Then report state `stopping` and the ranks' ends, and wait for leave. leave: everything
// is known, or the node is fenced; end the remaining processes and exit.
struct Command {
  CommandKind kind = CommandKind::none;
  std::string master_address{};
  int master_port = 0;
  std::string rendezvous{};  // host:port
  Duration grace{};
  // All that the attempt may run, as LaunchSpec::time_left; none: of an older daemon, or the node
  // has no run.
  std::optional<Duration> time_left{};
  // The store does not know the node. The agent continues as if no daemon existed: it keeps what it
  // collects, enforces its time limit itself, and calls rarely.
  bool orphaned = false;

  bool operator==(const Command&) const = default;
};

// For the agent of this incarnation; empty: the node's agent.
Command command_for(const State& state, const NodeName& node, const std::string& incarnation = {});

// All that the commands of a run's agents depend on. Only the command of a node that has just
// reported its own change also depends on that.
struct GangStatus {
  std::int64_t epoch = 0;  // of the live attempt; 0: there is none
  AttemptState state = AttemptState::reserved;
  bool all_ready = false;   // every node has reported its addresses
  bool all_final = false;   // no report about any rank can come
  std::int64_t fenced = 0;  // lost and released nodes
  Duration time_left{};     // as in Command

  bool operator==(const GangStatus&) const = default;
};
GangStatus gang_status(const State& state, const RunId& run);

// No further report about the node's ranks can come: they have all ended, or the node started none
// and never will, or the node is lost or released.
bool ranks_are_final(const Node& node);

}  // namespace lockstep::model
