// What can happen to the controller (events) and what it wants done in the world (effects).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/operation.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "platform/core/model/state.h"

namespace lockstep {

// Under a request id that is known already: nothing happens, the run is there.
struct SubmitRun {
  RunSpec spec;
  Origin origin;
  std::string request_id{};
  std::vector<RunId> same_folder{};  // runs that have not ended, in the same checkpoint folder
};
struct StopRun {
  RunId run;
  std::string reason;
};
// Queue a run again that ended otherwise than well, at the queue's end.
struct ResumeRun {
  RunId run;
  std::vector<RunId> same_folder{};  // as of SubmitRun
};
// A run that waits stays where it stands, and does not start until it is released.
struct HoldRun {
  RunId run;
  std::string by;
  std::string reason;
};
struct ReleaseRun {
  RunId run;
  std::string by;
};
struct SetPriority {
  RunId run;
  int priority = 0;
  std::string by;
};
// Open: it is released.
struct SetHost {
  std::string host;
  HostState state = HostState::open;
  std::string by;
  std::string reason;
};
// Devices that the project or user may hold at once; none: as many as there are.
struct SetLimit {
  LimitId limit;
  std::optional<int> devices;
};
// How many times as much as one of weight 1 the project has a right to.
struct SetWeight {
  std::string project;
  int weight = 1;
};
// An agent's word about its node; repeats and late ones are harmless.
struct NodeReport {
  NodeId node;
  std::string generation{};  // of its attempt; a report under another one changes nothing
  NodeState state = NodeState::ready;
  std::string address;
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  StopReason stop_reason = StopReason::none;
  std::string message;
  std::vector<Rank> ranks;
  std::optional<ClockRow> clock{};           // of the ranks' moments; none: an older agent's
  std::optional<Time> saved{};               // when a rank last said that a checkpoint is complete
  std::optional<std::int64_t> saved_step{};  // the furthest of those that it tells of
  Time listening_since{};                    // the daemon's own: agents could be heard from then on
};
// The engine could not start the node's agent.
struct LaunchFailed {
  NodeId node;
  std::string message;
  bool host_is_blameless = false;  // the daemon itself lacked something, such as disk space
};
// The engine confirms that no process of the node is left. Only for nodes whose launch was tried.
struct NodeGone {
  NodeId node;
};
// The engine sees processes of the node, and that its agent is not among them any more.
struct AgentGone {
  NodeId node;
};
// The engine lists these nodes, which the store does not know, and no others.
struct OrphansSeen {
  std::vector<Orphan> orphans;
};
// An operator has the orphans of this run end, or makes it a run of this store.
struct StopOrphan {
  RunId run;
  std::string by;
};
struct AdoptOrphan {
  RunId run;
  std::string by;
};
// Time passes: time-outs, silent agents, waiting runs.
struct Tick {
  Time listening_since{};  // agents could be heard from then on, without a break
};
// The daemon was away, or stood still, and is back: nobody could be heard meanwhile, so nobody
// counts as silent.
struct DaemonStarted {};
// The wall clock was set since it was last read, or the machine was started again: what is counted
// in time goes on as if it had not been.
struct ClockRead {
  ClockRow clock;
};

using Event = std::variant<SubmitRun, StopRun, ResumeRun, HoldRun, ReleaseRun, SetPriority, SetHost,
                           SetLimit, SetWeight, NodeReport, LaunchFailed, NodeGone, AgentGone,
                           OrphansSeen, StopOrphan, AdoptOrphan, Tick, DaemonStarted, ClockRead>;

// Start the node's agent. Idempotent: the node's name is its token.
struct LaunchNode {
  NodeId node;
  bool operator==(const LaunchNode&) const = default;
};
// End every process of the node by force; NodeGone follows when the engine sees none.
struct KillNode {
  NodeId node;
  bool operator==(const KillNode&) const = default;
};

// The same to an orphan.
struct KillOrphan {
  NodeName node;
  bool operator==(const KillOrphan&) const = default;
};

using Effect = std::variant<LaunchNode, KillNode, KillOrphan>;

}  // namespace lockstep
