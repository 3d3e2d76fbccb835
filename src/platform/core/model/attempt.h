// An attempt: one try of a run on a fixed placement, and its nodes and ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "platform/core/model/ids.h"
#include "platform/core/model/slice.h"
#include "report/fault/fault.h"
#include "text/record.h"

namespace lockstep {

// reserved: the devices are held; launching: agents have begun to call; running: every node's ranks
// were started; draining: it is to end, and processes may still be there; ended: none is left.
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
  node_lost,      // an agent fell silent, or ended without a word
  launch_failed,  // the engine could not start an agent, or an agent its ranks
  hung,           // a rank lives, but has made no progress for the run's `hang_after`
  timeout,
  cancelled,
  moved,         // to other devices, so that another run has room or its host can be emptied
  paused,        // for another run; it stands again where it stood
  evicted,       // as preemptible runs are, for any other
  node_stopped,  // its agent was asked to end: the host shuts down, or its engine needs it
  superseded,    // a newer attempt or another run writes its checkpoints
  refused,       // another run, that has not ended, writes to its checkpoint folder
};
constexpr auto enum_names(Cause) {
  return names<Cause>({{Cause::none, "none"},
                       {Cause::ok, "ok"},
                       {Cause::user_exit, "user_exit"},
                       {Cause::rank_lost, "rank_lost"},
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
                       {Cause::refused, "refused"}});
}
// It had to leave its devices, and goes on: no loss, and no retry of its own.
constexpr bool makes_room(Cause cause) {
  return cause == Cause::moved || cause == Cause::paused || cause == Cause::evicted ||
         cause == Cause::node_stopped;
}

// allocated, released and lost are the controller's words, the others the agent's: ready (it offers
// its addresses), running (all its ranks were started), stopping (it obeys `stop`, or could not
// start its ranks and says why in `message`; it starts none any more).
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
// the agent to end, or a rank makes no progress while the daemon does not answer.
enum class StopReason { none, timeout, signal, no_progress };
constexpr auto enum_names(StopReason) {
  return names<StopReason>({{StopReason::none, "none"},
                            {StopReason::timeout, "timeout"},
                            {StopReason::signal, "signal"},
                            {StopReason::no_progress, "no_progress"}});
}

// lost: its node is gone, and nobody saw how it ended.
enum class RankState { running, exited, killed, lost };
constexpr auto enum_names(RankState) {
  return names<RankState>({{RankState::running, "running"},
                           {RankState::exited, "exited"},
                           {RankState::killed, "killed"},
                           {RankState::lost, "lost"}});
}

// What a rank's process does, by the letter that /proc/PID/stat gives it. unknown: nobody looked;
// blocked: in the kernel, where no signal reaches it (D); stopped: by SIGSTOP or a debugger (T, t).
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
  std::string generation{};  // of the store when it was made
  AttemptState state = AttemptState::reserved;
  // Set when draining begins. A rank's bad end gives way to one that happened earlier and was
  // reported later, and to a node that turns out to be lost.
  Cause cause = Cause::none;
  std::string reason;
  Time created{};
  std::optional<Time> started;   // all nodes said `running`
  std::optional<Time> draining;  // the end began; running time is counted up to here
  std::optional<Time> ended;
  std::optional<Time> saved{};               // when its ranks wrote their newest checkpoint
  std::optional<std::int64_t> saved_step{};  // the furthest of them
  std::vector<Slice> moves_to{};  // of one that is moved: held for the next attempt, by node

  bool operator==(const Attempt&) const = default;
};

struct Rank {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  RankState state = RankState::running;
  int code = 0;                  // exit code, or the signal's number when killed
  bool signalled_by_us = false;  // the agent itself sent the signal that ended it
  std::optional<Time> ended{};
  std::int64_t step = -1;                 // the last that it reported; -1: none yet
  std::optional<Time> stalled_since{};    // its last progress, once that is `hang_after` ago
  Activity activity = Activity::unknown;  // when it was last looked at
  std::optional<Time> activity_since{};   // blocked or stopped
  // Why it must end, as it said itself; the global rank at fault, -1: it did not know; its words.
  Fault fault = Fault::none;
  int fault_rank = -1;
  std::string fault_text{};
  int restarts = 0;  // how often its agent has started it again (OnFailure::wait)

  bool operator==(const Rank&) const = default;

  // As its agent reports it.
  static constexpr auto fields() {
    return record<Rank>(
        field("rank", &Rank::rank, "global rank"),
        field("local_rank", &Rank::local_rank, "rank within its node"),
        field("pid", &Rank::pid, "process id"),
        required(field("state", &Rank::state, "how its process is")),
        field("code", &Rank::code, "exit code, or the signal's number"),
        field("signalled_by_us", &Rank::signalled_by_us, "the agent sent the signal"),
        field("ended", &Rank::ended, "when it ended"),
        field("step", &Rank::step, "the last that it reported; -1: none"),
        field("activity", &Rank::activity, "what its process did when last looked at"),
        field("stalled_since", &Rank::stalled_since,
              "its last progress, once that is hang_after ago"),
        field("activity_since", &Rank::activity_since, "since when it is blocked or stopped"),
        field("fault", &Rank::fault, "why it must end, as it said itself"),
        field("fault_rank", &Rank::fault_rank, "the global rank at fault; -1: it did not know"),
        field("fault_text", &Rank::fault_text, "its words"),
        field("restarts", &Rank::restarts, "how often its agent has started it again"));
  }
};

// Ended other than by exit(0), and not because its agent signalled it.
bool ended_badly(const Rank& rank);

struct Node {
  NodeId id;
  std::string host;          // the map's host id
  std::vector<int> devices;  // indices within the host
  NodeState state = NodeState::allocated;
  std::string address;  // where other nodes reach it
  int master_port = 0;
  int rendezvous_port = 0;
  std::int64_t agent_pid = 0;
  StopReason stop_reason = StopReason::none;
  std::string message;  // what the agent said of a failure
  Time last_heard{};    // or when it was allocated; refreshed every few seconds, not at each call
  std::optional<Time> killed;  // when its end by force was last asked for
  std::vector<Rank> ranks;

  bool operator==(const Node&) const = default;
};

// Whether the two differ in more than when the node was heard and how far its ranks are: in what is
// written down at once, and what makes a run's version grow.
bool has_news(const Node& before, const Node& after);

// All of the node's ranks were started.
bool all_ranks_began(const Node& node);
// And have ended.
bool all_ranks_ended(const Node& node);
// All ranks of these, an attempt's nodes, exited with 0, and not because their agents signalled
// them.
bool all_ended_well(const std::vector<const Node*>& nodes);
// When the last rank of the node did; nothing before that, and of a node that was lost with its
// ranks.
std::optional<Time> last_end(const Node& node);

// How long all ranks of the attempt ran, from `started` to when draining began, or `now`; these are
// its nodes. Less when it turns out that it ran no longer than to an earlier moment, because the
// daemon was away when that came: up to the rank's end that began the attempt's, by its agent's
// clock; else up to the last sign of life of any node, a rank's end or a call.
Duration running_time(const Attempt& attempt, const std::vector<const Node*>& nodes, Time now);

}  // namespace lockstep
