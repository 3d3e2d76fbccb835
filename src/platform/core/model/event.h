// Events that the controller handles, and the effects that it requests in the world.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "platform/core/model/attempt.h"
#include "platform/core/model/observation.h"
#include "platform/core/model/operator_rows.h"
#include "platform/core/model/orphan.h"
#include "platform/core/model/run.h"
#include "platform/core/model/state.h"

namespace lockstep::model {

// A known request id changes nothing: the run exists already.
struct SubmitRun {
  RunSpec spec;
  Origin origin;
  std::string request_id{};
  std::vector<RunId>
      runs_in_same_folder{};  // runs that have not ended, in the same checkpoint folder
  ProjectKind project_kind = ProjectKind::shared;
};
struct StopRun {
  RunId run;
  std::string reason;
};
// Queue a run again at the queue's end. The run must have ended without success.
struct ResumeRun {
  RunId run;
  std::vector<RunId> runs_in_same_folder{};  // as in SubmitRun
};
// A waiting run keeps its place in the queue and does not start until it is released.
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
// The run's time limit becomes longer, also while it runs.
struct ExtendRun {
  RunId run;
  Duration extension{};  // more than 0
  std::string by;
};
// Also after the run's end.
struct AnnotateRun {
  RunId run;
  Tags tags;                        // changes: an empty value removes the tag
  std::optional<std::string> note;  // none: it stays
};
// State `open` releases the host.
struct SetHost {
  std::string host;
  HostState state = HostState::open;
  std::string by;
  std::string reason;
};
// A host's service joins with a join token, for the credential of this number. The same call again,
// with the same claim, changes nothing: its answer was lost.
struct AdmitHost {
  std::string host;
  std::string pod;     // empty: kDefaultPod
  int credential = 0;  // of the host's row when the token was made
  std::string claim;   // hex SHA-256 of a random value that the service chose
  std::string machine;
};
// A host's service reports what the host is. If the devices differ while runs hold devices of the
// host, it counts once these have ended.
struct DescribeHost {
  std::string host;
  map::Host facts;
};
// An operator removes a host that has joined. Its credential is void from then on.
struct RemoveHost {
  std::string host;
  std::string by;
  bool lost = false;  // the machine does not come back: what is left of its nodes counts as gone
};
// An operator says that the machine is off: its nodes count as gone. The host stays a member, and
// takes no run until its service calls again.
struct HostDead {
  std::string host;
  std::string by;
};
// An operator sets labels of a host that has joined; an empty value removes the label.
struct LabelHost {
  std::string host;
  map::Labels labels;
  std::string by;
};
// An operator has measured how fast ranks of hosts that joined reach one another. It replaces what
// was measured before.
struct SetMeasured {
  map::Measured measured;
};
// The number of devices that the project or user may hold at once; none: no limit.
struct SetLimit {
  LimitId limit;
  std::optional<int> devices;
};
// The project's fair share, as a multiple of that of a project of weight 1.
struct SetWeight {
  std::string project;
  int weight = 1;
};
// Device time for the runs of a project, from the bank or from another project.
struct GrantBudget {
  std::string project;
  budget::DeviceTime amount{};
  Time ends{};
  std::string by{};
  std::string reason{};
};
struct WithdrawBudget {
  std::string project;
  budget::DeviceTime amount{};
  std::string by{};
  std::string reason{};
};
struct MoveBudget {
  std::string project;
  std::string to;
  budget::DeviceTime amount{};
  std::string by{};
  std::string reason{};
};
// The runs of the project are limited by its budget no more, until it gets a grant.
struct LiftBudget {
  std::string project;
  std::string by{};
};
// The weight of devices of this kind in budgets.
struct SetRate {
  std::string kind;
  int weight_percent = 100;
};
// The agent of an external job, whose ranks another launcher has started, gets a node: of the run
// of this job, or of a new one. The same call again changes nothing.
struct AttachNode {
  std::string job;  // names the job, on all its hosts
  std::string launcher;
  RunSpec spec;  // its project, name, command, nodes, devices and working folder count
  Origin origin;
  AgentIncarnation agent;
  std::vector<Rank> ranks;  // that the agent knows
};
// An agent's report about its node. Repeated and late reports are harmless.
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
  AgentIncarnation agent{};         // the start of the agent that calls; no id: an older agent
  std::int64_t last_item = 0;       // the sequence of the last item that came with it
  std::optional<ClockRow> clock{};  // of the times in `ranks`; none: an older agent
  std::optional<Time> last_checkpoint{};  // when a rank last reported a complete checkpoint
  std::optional<std::int64_t> last_checkpoint_step{};  // the highest step among those checkpoints
  Time listening_since{};            // set by the daemon: since when agents can reach it
  std::optional<Time> idle_since{};  // since when its processes do not compute; none: they do
  std::string nccl_network{};        // which network NCCL uses, and why; empty: no GPUs
};
// An observation of the engine about a node that it was told to start.
struct NodeSeen {
  NodeId node;
  Observation seen{};
};
// The engine cannot use these hosts of the map now, each with the reason, and can use all others.
struct HostsSeen {
  std::map<std::string, std::string> unavailable;
};
// The engine lists exactly these nodes that the store does not know.
struct OrphansListed {
  std::vector<Orphan> orphans;
};
// An operator stops the orphans of this run, or makes them a run of this store.
struct StopOrphan {
  RunId run;
  std::string by;
};
struct AdoptOrphan {
  RunId run;
  std::string by;
};
// Time passes: the step checks time limits, silent agents and waiting runs.
struct Tick {
  Time listening_since{};  // since when agents can reach the daemon without a break
  Time on_time_since{};    // since when its loop was not slow: no agent waited long for an answer
  // The hosts that have not answered for so long that the daemon does not wait for them.
  std::set<std::string> silent_hosts{};
};
// The daemon was away, or was suspended, and is back. No agent could reach it meanwhile, so no
// agent counts as silent.
struct DaemonStarted {};
// The wall clock was set since the last read, or the machine was restarted. Everything counted in
// time continues as if this had not happened.
struct ClockChanged {
  ClockRow clock;
};

// The idle time after which a run of the project is stopped; zero: never; none: the default.
struct SetIdleStop {
  std::string project;
  std::optional<Duration> idle_stop{};
};

using Event =
    std::variant<SubmitRun, StopRun, ResumeRun, HoldRun, ReleaseRun, SetPriority, ExtendRun,
                 AnnotateRun, SetHost, AdmitHost, DescribeHost, RemoveHost, HostDead, LabelHost,
                 SetMeasured, SetLimit, SetWeight, GrantBudget, WithdrawBudget, MoveBudget,
                 LiftBudget, SetRate, AttachNode, NodeReport, NodeSeen, HostsSeen, OrphansListed,
                 StopOrphan, AdoptOrphan, Tick, DaemonStarted, ClockChanged, SetIdleStop>;

// Start the agents of the attempt's nodes. Idempotent: the engine starts no node twice.
struct SubmitGang {
  AttemptId attempt;
  bool operator==(const SubmitGang&) const = default;
};
// Kill every process of the node; when the engine sees none, the node is gone.
struct KillNode {
  NodeId node;
  bool operator==(const KillNode&) const = default;
};

// The same for an orphan.
struct KillOrphan {
  NodeName node;
  bool operator==(const KillOrphan&) const = default;
};

using Effect = std::variant<SubmitGang, KillNode, KillOrphan>;

}  // namespace lockstep::model
