// AgentLoop: the agent's main thread. It polls the ranks' output and report sockets, signals and
// the daemon's commands, passes what it observes to the core (core/step.h) as events, and carries
// out the effects. It decides nothing about the ranks. docs/design/agent.md describes it in full.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/units.h"
#include "net/crypto.h"
#include "platform/agent/core/step.h"
#include "platform/agent/fetch/file_fetch.h"
#include "platform/agent/link/failure_notifier.h"
#include "platform/agent/link/heartbeat_sender.h"
#include "platform/agent/ranks/rank_launcher.h"
#include "platform/agent/ranks/rank_processes.h"
#include "platform/agent/ranks/rank_streams.h"
#include "platform/agent/shell/shell_service.h"
#include "platform/agent/software/software_preparation.h"
#include "platform/agent/stream/stream_service.h"
#include "platform/agent/watch/event_file_watch.h"
#include "platform/agent/watch/memory_kills.h"
#include "platform/agent/watch/straggler_watch.h"
#include "platform/agent/watch/telemetry_watch.h"
#include "platform/core/model/state.h"
#include "platform/host/launch_spec.h"
#include "platform/host/machine.h"

namespace lockstep::agent {

class AgentLoop {
 public:
  // Opens the ports, sockets and files of the node. SIGCHLD, SIGTERM and SIGINT must be blocked in
  // all threads; `token` marks the node's processes. `launch` and `link` must outlive the loop.
  static Result<std::unique_ptr<AgentLoop>> open(const host::LaunchSpec& launch,
                                                 const model::NodeId& node, std::string token,
                                                 DaemonLink& link);

  // Runs until the core exits.
  void run();

 private:
  AgentLoop(const host::LaunchSpec& launch, const model::NodeId& node,
            std::unique_ptr<RankLauncher> launcher, std::string token, Fd signals);
  Result<void> open_streams();

  // Observation
  void run_once();
  Duration poll_timeout() const;
  Result<void> prepare_environment();
  void check_files();
  void start_preparation();
  void check_preparation();
  void read_signals();
  bool take_signals();
  void collect_ended_ranks();
  void await_own_signal();
  void handle_lines(int local_rank, std::string lines);
  void handle_report(int local_rank, spool::TelemetryItem item);
  void handle_report(int local_rank, const FaultReport& report);
  void check_stragglers();
  void pass_on_telemetry();
  void watch_event_files();
  void add_items(std::vector<spool::TelemetryItem> items);
  void limit_log_size();

  // The core
  void handle(const Event& event);
  void carry_out(const StartRanks& effect);
  void carry_out(const RestartRank& effect);
  void carry_out(const CheckRanks& effect);
  void carry_out(const SignalRanks& effect);
  void carry_out(const KillLeftovers& effect);
  void carry_out(const FinishStreams& effect);
  void carry_out(const ReportStatus& effect);
  void carry_out(const AddEvent& effect);
  void carry_out(const AddLogLine& effect);
  void carry_out(const NotifyPeers& effect);
  void carry_out(const LogLastLines& effect);
  void carry_out(const WriteLog& effect);
  void carry_out(const Exit& effect);
  Result<void> start_rank(int local_rank);
  void add_item(spool::TelemetryKind kind, int rank, std::string text);
  api::Heartbeat status() const;

  const host::LaunchSpec& launch_;
  const model::NodeId node_;
  const model::ClockRow clock_;  // for reported times; not read again when the wall clock is set
  const std::string incarnation_ = net::random_hex(8);  // of this start
  const std::string machine_ = host::this_machine().host;
  const Time started_ = SystemClock().now();
  Fd signals_;
  std::unique_ptr<RankLauncher> launcher_;
  RankStreams streams_;
  RankProcesses processes_;
  std::unique_ptr<FileFetch> files_;                  // if ranks need files to start
  std::unique_ptr<SoftwarePreparation> preparation_;  // if the launch has a software environment
  ShellService shells_;
  std::unique_ptr<StreamService> stream_service_;      // uses the shells
  std::unique_ptr<HeartbeatSender> heartbeat_sender_;  // uses both
  std::optional<StragglerWatch> stragglers_;           // while ranks run, on node 0
  std::optional<TelemetryWatch> telemetry_;            // from the ranks' start to their end
  std::optional<EventFileWatch> event_files_;          // likewise
  FailureNotifier failure_notifier_;
  MemoryKills memory_kills_;
  AgentState state_;
  Deadline next_log_check_ = Deadline::after(Duration(0));  // of the log's size
  // Slurm ends a step by a signal to each of its processes, the agent too.
  const bool shares_signals_;
  bool exiting_ = false;
};

}  // namespace lockstep::agent
