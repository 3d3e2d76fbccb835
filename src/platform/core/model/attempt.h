// An attempt: one try of a run, and its nodes and ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "platform/core/budget/charge.h"
#include "platform/core/model/host_devices.h"
#include "platform/core/model/ids.h"
#include "report/fault/fault.h"
#include "text/record.h"

namespace lockstep::model {

// reserved: the devices are held. launching: the first agents have reported. running: all ranks of
// every node were started. draining: the attempt is being ended, and processes may still exist.
// ended: no process is left.
enum class AttemptState { reserved, launching, running, draining, ended };
constexpr auto enum_names(AttemptState) {
  return names<AttemptState>({{AttemptState::reserved, "reserved"},
                              {AttemptState::launching, "launching"},
                              {AttemptState::running, "running"},
                              {AttemptState::draining, "draining"},
                              {AttemptState::ended, "ended"}});
}

enum class Cause {
  none,  // has not ended
  ok,
  user_exit,      // a rank exited with a code other than 0
  rank_lost,      // a rank was killed by a signal that Lockstep did not send
  oom,            // the kernel killed a rank: its node used more than its limit of memory
  node_lost,      // an agent stopped sending heartbeats, or ended without a report
  launch_failed,  // the engine could not start an agent, or an agent its ranks
  hung,           // a rank lives, but made no progress for the run's `hang_after`
  timeout,
  cancelled,
  moved,         // to other devices, to free capacity for another run or to drain its host
  paused,        // for another run; it keeps its place in the queue
  evicted,       // a preemptible run gives way to another run
  node_stopped,  // its agent received a signal: the host shuts down, or its engine takes the
                 // devices back
  superseded,    // a newer attempt or another run writes its checkpoints
  budget,        // that of its project is used up; it continues when there is more
  refused,  // another run that has not ended writes to its checkpoint folder, or its engine does
            // not allow it
  idle,     // it did not use its devices for as long as its project allows
};
constexpr auto enum_names(Cause) {
  return names<Cause>({{Cause::none, "none"},
                       {Cause::ok, "ok"},
                       {Cause::user_exit, "user_exit"},
                       {Cause::rank_lost, "rank_lost"},
                       {Cause::oom, "oom"},
                       {Cause::node_lost, "node_lost"},
                       {Cause::launch_failed, "launch_failed"},
                       {Cause::hung, "hung"},
                       {Cause::timeout, "timeout"},
                       {Cause::cancelled, "cancelled"},
                       {Cause::moved, "moved"},
                       {Cause::paused, "paused"},
                       {Cause::evicted, "evicted"},
                       {Cause::node_stopped, "node_stopped"},
                       {Cause::superseded, "superseded"},
                       {Cause::budget, "budget"},
                       {Cause::refused, "refused"},
                       {Cause::idle, "idle"}});
}
// The run was preempted and continues later: this is no loss and uses no retry.
constexpr bool is_preemption(Cause cause) {
  return cause == Cause::moved || cause == Cause::paused || cause == Cause::evicted ||
         cause == Cause::node_stopped || cause == Cause::budget;
}

// The controller sets released and lost; the agent reports the others. allocated: it has not
// called, or prepares the environment of its ranks. ready: it offers its addresses. running: all
// its ranks were started. stopping: it obeys `stop`, or could not start its ranks and gives the
// reason in `message`; it starts no more ranks.
enum class NodeState { allocated, ready, running, stopping, released, lost };
constexpr auto enum_names(NodeState) {
  return names<NodeState>({{NodeState::allocated, "allocated"},
                           {NodeState::ready, "ready"},
                           {NodeState::running, "running"},
                           {NodeState::stopping, "stopping"},
                           {NodeState::released, "released"},
                           {NodeState::lost, "lost"}});
}

// Why an agent ends its ranks without a command: their time is up by its own clock, a signal asks
// the agent to end, a rank makes no progress while the daemon does not answer, or its host lacks
// the environment of the run, which no other attempt there will find either.
enum class StopReason { none, timeout, signal, no_progress, no_environment };
constexpr auto enum_names(StopReason) {
  return names<StopReason>({{StopReason::none, "none"},
                            {StopReason::timeout, "timeout"},
                            {StopReason::signal, "signal"},
                            {StopReason::no_progress, "no_progress"},
                            {StopReason::no_environment, "no_environment"}});
}

// lost: its node is gone, and how the rank ended is unknown.
enum class RankState { running, exited, killed, lost };
constexpr auto enum_names(RankState) {
  return names<RankState>({{RankState::running, "running"},
                           {RankState::exited, "exited"},
                           {RankState::killed, "killed"},
                           {RankState::lost, "lost"}});
}

// The state of a rank's process, by the letter in /proc/PID/stat. unknown: not checked yet.
// blocked: in the kernel, where no signal reaches it (D). stopped: by SIGSTOP or a debugger (T, t).
enum class Activity { unknown, running, sleeping, blocked, stopped };
constexpr auto enum_names(Activity) {
  return names<Activity>({{Activity::unknown, "unknown"},
                          {Activity::running, "running"},
                          {Activity::sleeping, "sleeping"},
                          {Activity::blocked, "blocked"},
                          {Activity::stopped, "stopped"}});
}

std::string_view text(AttemptState state);
std::string_view text(Cause cause);
std::string_view text(NodeState state);
std::string_view text(StopReason reason);
std::string_view text(RankState state);
std::string_view text(Activity activity);

struct Attempt {
  AttemptId id;
  std::string generation{};  // generation of the store when the attempt was created
  AttemptState state = AttemptState::reserved;
  // Set when draining begins. A rank's failure is replaced by an earlier failure that was reported
  // later, and by the loss of a node.
  Cause cause = Cause::none;
  std::string reason;
  std::string engine{};  // that starts it; empty: created by an older daemon
  // False: Lockstep has not placed it. Its nodes have no host until their engine names it, and they
  // hold no devices for the scheduler: `Node::devices` only has as many as the node has ranks.
  bool is_placed = true;
  // Without a call that reaches the daemon for so long, an agent ends its ranks and itself. None:
  // never.
  std::optional<Duration> lease{};
  Time created{};
  std::optional<Time> admitted{};  // when the last of its nodes left its engine's own queue
  std::optional<Time> started;     // all nodes reported `running`
  std::optional<Time> draining;    // draining began; running time is counted up to here
  std::optional<Time> ended;
  std::optional<Time> last_checkpoint{};               // when a rank wrote the newest checkpoint
  std::optional<std::int64_t> last_checkpoint_step{};  // the highest step of a checkpoint
  std::vector<HostDevices>
      move_destination{};  // for a run that is moved: reserved for the next attempt, by node
  std::optional<budget::Charge> charge{};  // none: of an external run, or from an older daemon
  std::optional<Time> idle_warned{};       // the begin of the idle time that it was warned about

  bool operator==(const Attempt&) const = default;
};

struct Rank {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  RankState state = RankState::running;
  int code = 0;                     // exit code, or the signal's number when killed
  bool signalled_by_agent = false;  // the agent itself sent the signal that ended the rank
  std::optional<Time> ended{};
  std::int64_t step = -1;                 // the last reported step; -1: none yet
  std::optional<Time> stalled_since{};    // its last progress, set once that is `hang_after` ago
  Activity activity = Activity::unknown;  // at the last check
  std::optional<Time> activity_since{};   // since when it is blocked or stopped
  // The fault that the rank reported; the global rank at fault, or -1 if unknown; the fault text.
  report::Fault fault = report::Fault::none;
  int fault_rank = -1;
  std::string fault_text{};
  int restarts = 0;  // how often its agent has restarted it (OnFailure::wait)

  bool operator==(const Rank&) const = default;

  // As the agent reports it.
  static constexpr auto fields() {
    return record<Rank>(
        field("rank", &Rank::rank, "global rank"),
        field("local_rank", &Rank::local_rank, "rank within its node"),
        field("pid", &Rank::pid, "process id"),
        required(field("state", &Rank::state, "how its process is")),
        field("code", &Rank::code, "exit code, or the signal's number"),
        field("signalled_by_agent", &Rank::signalled_by_agent, "the agent sent the signal"),
        field("ended", &Rank::ended, "when it ended"),
        field("step", &Rank::step, "the last that it reported; -1: none"),
        field("activity", &Rank::activity, "what its process did when last looked at"),
        field("stalled_since", &Rank::stalled_since,
              "its last progress, once that is hang_after ago"),
        field("activity_since", &Rank::activity_since, "since when it is blocked or stopped"),
        field("fault", &Rank::fault, "why it must end, as it said itself"),
        field("fault_rank", &Rank::fault_rank, "the global rank at fault; -1: it did not know"),
        field("fault_text", &Rank::fault_text, "its text"),
        field("restarts", &Rank::restarts, "how often its agent has started it again"));
  }
};

// Ended other than by exit(0), and not by a signal of its agent.
bool ended_badly(const Rank& rank);

// One start of an agent.
struct AgentIncarnation {
  std::string id{};       // random; empty: sent by an older agent
  std::string machine{};  // the name of its host, as the host itself gives it
  Time started{};
  std::int64_t refused_items = 0;  // of an agent that is not the node's: not stored

  bool operator==(const AgentIncarnation&) const = default;

  static constexpr auto fields() {
    return record<AgentIncarnation>(
        required(field("id", &AgentIncarnation::id, "random, of each start")),
        field("machine", &AgentIncarnation::machine, "where it runs"),
        field("started", &AgentIncarnation::started, "when it started"),
        field("refused_items", &AgentIncarnation::refused_items, "items that were not stored"));
  }
};

struct Node {
  NodeId id;
  std::string host;          // the map's host id; empty: not known yet (Attempt::is_placed)
  std::vector<int> devices;  // indices within the host, if its attempt is placed; one rank each
  NodeState state = NodeState::allocated;
  std::string address;  // where other nodes reach this node
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  std::vector<AgentIncarnation> agents{};  // that have called; the first is the node's agent
  std::string handle{};                    // its engine's own name of it; empty: none
  std::string incarnation{};               // of its agent, as its engine knows it
  std::string pending_reason{};  // why it waits in its engine's own queue; empty: it does not
  StopReason stop_reason = StopReason::none;
  std::string message;    // what the agent reported about a failure
  Time last_heartbeat{};  // or the allocation time; stored every few seconds, not at each call
  std::optional<Time> last_progress{};  // when a report last had a further step of a rank
  // Its last sign of life, while it is unreachable: silent, but not lost.
  std::optional<Time> unreachable_since{};
  std::optional<Time> kill_requested_at;  // when the last forced kill was requested
  std::vector<Rank> ranks;
  std::optional<Time> idle_since{};  // since when its processes do not compute; none: they do
  std::string nccl_network{};        // that its ranks use, and why; empty: no GPUs

  bool operator==(const Node&) const = default;
};

// True if this is a start of another agent than the node's.
bool is_second_agent(const Node& node, const std::string& incarnation);

// True if the two differ in more than the last heartbeat, the last progress and the ranks' steps.
// Such a change is stored at once and increases the run's version.
bool has_material_change(const Node& before, const Node& after);

// The node has no agent yet: it waits in its engine's own queue, or its engine chooses its host and
// has not named it.
bool waits_in_engine(const Attempt& attempt, const Node& node);

// All of the node's ranks were started.
bool all_ranks_started(const Node& node);
// All were started and have ended.
bool all_ranks_ended(const Node& node);
// All ranks of these nodes, which are an attempt's nodes, exited with 0, and not by a signal of
// their agents.
bool all_ranks_succeeded(const std::vector<const Node*>& nodes);
// When the last rank of the node ended; empty before that, and for a node that was lost with its
// ranks.
std::optional<Time> last_rank_end(const Node& node);

// How long all ranks of the attempt ran: from `started` until draining began, or until `now`.
// `nodes` are the attempt's nodes. The time is shorter if the ranks ended earlier while the daemon
// was away. Then it ends at the rank end that caused the draining, by its agent's clock; otherwise
// at the last heartbeat or rank end of any node.
Duration running_time(const Attempt& attempt, const std::vector<const Node*>& nodes, Time now);

}  // namespace lockstep::model
