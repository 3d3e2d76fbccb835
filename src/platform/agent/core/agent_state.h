// The whole state of an agent's decisions. step() changes it; others only read it.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/units.h"
#include "platform/agent/core/idle_watch.h"
#include "platform/agent/core/rank_records.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/command.h"
#include "platform/core/model/limit_signal.h"
#include "platform/core/model/run.h"

namespace lockstep::agent {

// Constant for one node; LaunchSpec describes the fields.
struct AgentSettings {
  int first_rank = 0;
  int nodes = 1;
  Duration hang_after{};
  Duration time_left{};  // as the daemon last said
  std::optional<model::LimitSignal> signal{};
  Duration start_limit{};
  Duration lease{};
  model::OnFailure on_failure = model::OnFailure::restart;
  bool prepares_environment = false;  // the ranks need one that the shell prepares first
  Time clock_zero{};  // the wall-clock time at which the clock of the moments was zero
};

// preparing: the shell prepares the ranks' environment. waiting: the node offers its addresses,
// `start` has not come. running: the ranks were started. stopping: they get SIGTERM, SIGKILL
// follows. cleaning_up: no rank is left; remaining processes are killed and the last output is
// read. ended: everything is reported; `leave` has not come.
enum class Phase { preparing, waiting, running, stopping, cleaning_up, ended };

struct AgentState {
  explicit AgentState(const AgentSettings& node)
      : settings(node),
        phase(node.prepares_environment ? Phase::preparing : Phase::waiting),
        node_state(node.prepares_environment ? model::NodeState::allocated
                                             : model::NodeState::ready),
        ranks(node.first_rank, node.hang_after, node.clock_zero) {}

  AgentSettings settings;
  Phase phase;

  // The status that the daemon receives, with `ranks`.
  model::NodeState node_state;
  model::StopReason stop_reason = model::StopReason::none;
  std::string message;
  RankRecords ranks;
  IdleWatch idle_watch{};

  model::CommandKind command = model::CommandKind::none;  // the last
  bool refused = false;                                   // by the daemon, for too long
  bool leave_ordered = false;                             // once
  Duration grace = model::kGracePeriod;
  int next_signal = 0;              // the first signal to the ranks, sent after a check of them
  int restarts = 0;                 // of all ranks
  int restarts_in_progress = 0;     // RestartRank without an answer
  bool has_logged_failure = false;  // the last lines of the first rank that failed
  std::set<int> killed_ranks;       // local ranks whose kill was reported as an event
  bool no_leftovers = false;        // at the last check

  // Moments on the clock of step().
  std::optional<Duration> preparation_limit;    // when the environment must be prepared
  std::optional<Duration> running_end;          // once the ranks of all nodes run
  std::optional<Duration> time_out;             // of the running time, or of the wait for nodes
  bool has_sent_signal = false;                 // settings.signal, for this time limit
  std::optional<Duration> unattended_stop;      // a rank failed and no command came
  std::optional<Duration> next_kill;            // when the next SIGKILL is due
  std::optional<Duration> next_activity_check;  // of the running ranks
  std::optional<Duration> next_leftover_check;
  std::optional<Duration> leftover_limit;  // when to give up on leftovers
  std::optional<Duration> lease_end;       // as of the last call that reached the daemon
  std::optional<Duration> exit_limit;      // when to exit without `leave` or a full delivery
};

// When the ranks get the signal before their time limit; none: not now.
std::optional<Duration> limit_signal_at(const AgentState& state);
// When the next deadline passes; a TimePassed is due then. `now` as for step().
std::optional<Duration> next_deadline(const AgentState& state, Duration now);

}  // namespace lockstep::agent
