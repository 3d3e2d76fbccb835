// Events that the agent's shell observes, and effects that it must carry out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log_level.h"
#include "base/units.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/command.h"
#include "report/fault/fault.h"

namespace lockstep::agent {

// The daemon has answered. refused: it has not known the node for too long.
struct CommandReceived {
  model::Command command;
  bool refused = false;
};
// How the preparation of the ranks' environment ended.
struct EnvironmentPrepared {
  std::string error{};      // empty: the ranks can start
  bool is_missing = false;  // this host lacks it, and will in the next attempt
};
// Process ids by local rank. If one rank could not be started, those before it, and the error.
struct RanksStarted {
  std::vector<std::int64_t> pids;
  std::string error{};
  bool is_missing = false;  // the working folder: this host lacks it in the next attempt, too
};
struct RankRestarted {
  int local_rank = 0;
  std::int64_t pid = 0;
};
struct RestartFailed {
  int local_rank = 0;
  std::string error;
};
struct RankEnd {
  int local_rank = 0;
  model::RankState state = model::RankState::exited;
  int code = 0;                // exit code, or the signal's number when killed
  bool out_of_memory = false;  // the kernel has ended a process of the node for that meanwhile
  Bytes memory_limit{};        // then: that of the node; zero: it has none
};
// All ends that the shell found at one moment. Everything that these ranks reported before comes
// first.
struct RanksEnded {
  std::vector<RankEnd> ends;
};
struct RankActivity {
  model::Activity activity = model::Activity::unknown;
  std::optional<Duration> since{};  // the time since which it is blocked or stopped

  bool operator==(const RankActivity&) const = default;
};
// The activities of the running ranks, by local rank.
struct RanksChecked {
  std::map<int, RankActivity> activities;
  Duration cpu_time{};  // of all processes of the node, but not of the agent
};
// A report of the rank: progress, metrics or a checkpoint.
struct ProgressReported {
  int local_rank = 0;
  std::int64_t step = 0;
};
// The rank's own report that it must end. fault_rank: the global rank at fault; -1: unknown.
struct FaultReported {
  int local_rank = 0;
  report::Fault fault = report::Fault::none;
  int fault_rank = -1;
  std::string text{};
};
// A fault in the rank's output.
struct FaultPrinted {
  int local_rank = 0;
  report::Fault fault = report::Fault::none;
  std::string line;
};
// The processes of the node that were alive. streams_closed: no process holds a pipe or socket of a
// rank.
struct LeftoversChecked {
  std::vector<std::int64_t> pids;
  bool streams_closed = true;
};
// The agent itself received SIGTERM or SIGINT.
struct AgentSignalled {
  int signal = 0;
};
// since_answer: the time since the daemon's last answer. all_delivered: the daemon has everything.
// since_contact: the time since the begin of the last call that reached a daemon.
struct TimePassed {
  Duration since_answer{};
  bool all_delivered = false;
  Duration since_contact{};
};

using Event = std::variant<CommandReceived, EnvironmentPrepared, RanksStarted, RankRestarted,
                           RestartFailed, RanksEnded, RanksChecked, ProgressReported, FaultReported,
                           FaultPrinted, LeftoversChecked, AgentSignalled, TimePassed>;

// Start all ranks; RanksStarted follows.
struct StartRanks {
  model::Command command;
};
// Kill the rest of the rank's process group and start the rank again; RankRestarted or
// RestartFailed follows.
struct RestartRank {
  int local_rank = 0;
};
// Collect ended ranks, then look at the running ones; RanksEnded may follow, then RanksChecked.
struct CheckRanks {};
// Signal every process of the node.
struct SignalRanks {
  int signal = 0;
};
// SIGKILL to every process of the node; LeftoversChecked follows.
struct KillLeftovers {};
// Read pipes and sockets of the ranks to their ends, and close them.
struct FinishStreams {};
// Send the status of the state to the daemon if it has changed.
struct ReportStatus {};
// An event of the run.
struct AddEvent {
  int rank = 0;
  std::string text;
};
// A line in the rank's log.
struct AddLogLine {
  int rank = 0;
  std::string text;
};
// Tell the attempt's rendezvous that the rank was killed.
struct NotifyPeers {
  int rank = 0;
};
// The last lines of the rank's output in the agent's own log.
struct LogLastLines {
  int local_rank = 0;
};
// A line in the agent's own log.
struct WriteLog {
  LogLevel level = LogLevel::info;
  std::string text;
};
struct Exit {};

using Effect =
    std::variant<StartRanks, RestartRank, CheckRanks, SignalRanks, KillLeftovers, FinishStreams,
                 ReportStatus, AddEvent, AddLogLine, NotifyPeers, LogLastLines, WriteLog, Exit>;
using Effects = std::vector<Effect>;

}  // namespace lockstep::agent
