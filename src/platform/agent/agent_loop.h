// AgentLoop: the agent's main thread, one poll loop over the ranks' output, their report sockets,
// signals and the daemon's commands. docs/design/agent.md describes it in full.
//
//   waiting > running > stopping > cleaning_up > ended
//
// waiting: the node offers its addresses, `start` has not come. running: the ranks were started.
// stopping: they got SIGTERM, SIGKILL follows. cleaning_up: no rank is left; remaining processes
// are killed and the last output is read. ended: everything is reported; `leave` has not come.
#pragma once

#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "comm/rendezvous/port_forwarder.h"
#include "comm/rendezvous/server.h"
#include "net/reserved_port.h"
#include "platform/agent/link/failure_notifier.h"
#include "platform/agent/link/heartbeat_sender.h"
#include "platform/agent/ranks/rank_environment.h"
#include "platform/agent/ranks/rank_output.h"
#include "platform/agent/ranks/rank_processes.h"
#include "platform/agent/ranks/report_socket.h"
#include "platform/agent/ranks/socket_folder.h"
#include "platform/agent/watch/straggler_watch.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/state.h"
#include "platform/engine/launch_spec.h"
#include "platform/host/node_files.h"
#include "platform/host/open_folder.h"

namespace lockstep::agent {

class AgentLoop {
 public:
  // Opens the ports, sockets and files of the node. SIGCHLD, SIGTERM and SIGINT must be blocked in
  // all threads; `token` marks the node's processes. `launch` and `link` must outlive the loop.
  static Result<std::unique_ptr<AgentLoop>> open(const engine::LaunchSpec& launch,
                                                 const model::NodeId& node, std::string token,
                                                 DaemonLink& link);
  ~AgentLoop();

  // Runs until the daemon sends `leave`.
  void run();

 private:
  enum class Phase { waiting, running, stopping, cleaning_up, ended };
  // The streams that the loop reads from one rank.
  struct RankStreams {
    int rank = 0;
    Fd pipe;  // none before the start and after the end
    RankOutput output;
    ReportSocket reports;
    bool kill_reported = false;  // as an event of the run
  };

  AgentLoop(const engine::LaunchSpec& launch, const model::NodeId& node, std::string token,
            net::ReservedPort port, SocketFolder sockets, Fd signals);
  Result<void> open_rendezvous();
  Result<int> open_store();
  Result<void> open_rank_streams();
  Result<void> write_secret() const;
  host::NodeFiles own_files() const { return {folder_.path()}; }
  std::filesystem::path report_path(int local_rank) const;

  void run_once();
  Duration poll_timeout() const;
  void read_streams(RankStreams& source);
  void handle_report(int local_rank, spool::TelemetryItem item);
  void handle_report(int local_rank, const FaultReport& report);
  void read_signals();
  void apply_orders();
  void check_deadlines();
  void check_progress();
  void check_activities();
  void read_all_streams();
  void scan_for_faults(int local_rank, std::string_view lines);
  void check_stragglers();
  void limit_log_size();
  bool may_exit() const;

  void start_ranks(const model::Command& command);
  ProcessSpec program_of(int local_rank, bool is_restart) const;
  Result<void> start_rank(RankStreams& source, int local_rank);
  void restart_killed();
  void report_killed();
  void add_event(int rank, std::string description);
  bool failure_ends_all() const;
  void await_other_nodes();
  void start_running_time();
  void grant_full_time_limit();
  // message: the reason, for users; empty if a command requested the stop.
  void begin_stop(model::StopReason reason, std::string message);
  void kill_ranks();
  void handle_ended_ranks();
  void kill_leftovers();
  void finish_streams();
  void flush_output();
  std::vector<api::UnfinishedLine> unfinished_lines() const;
  void report_unfinished();
  api::Heartbeat status() const;
  void report_status() { heartbeat_sender_->set_status(status()); }
  bool streams_closed() const;

  // Constant after construction.
  const engine::LaunchSpec& launch_;
  const model::NodeId node_;
  const host::NodeFiles files_;    // the paths that ranks get
  const host::OpenFolder folder_;  // the same folder, for the agent itself
  const std::string token_;

  net::ReservedPort port_;
  SocketFolder sockets_;
  Fd signals_;
  const model::ClockRow clock_;  // for reported times; not read again when the wall clock is set
  std::unique_ptr<comm::RendezvousServer> rendezvous_;  // on node 0
  std::unique_ptr<comm::PortForwarder>
      forwarder_;       // on other nodes, where MASTER_ADDR is not loopback
  int store_port_ = 0;  // port of torch's store on loopback, as in RankLaunchInfo
  std::vector<RankStreams> rank_streams_;  // by local rank
  RankProcesses ranks_;
  std::unique_ptr<HeartbeatSender> heartbeat_sender_;
  std::optional<std::vector<std::vector<int>>> processors_;  // by local rank, once started
  std::optional<StragglerWatch> stragglers_;                 // while ranks run, on node 0
  FailureNotifier failure_notifier_;

  Phase phase_ = Phase::waiting;
  model::NodeState state_ = model::NodeState::ready;
  model::StopReason stop_reason_ = model::StopReason::none;
  std::string message_;
  DaemonOrders orders_;
  model::Command start_command_;  // with which the ranks were started
  int restarts_ = 0;              // how often ranks were restarted
  bool exit_ordered_ = false;
  Duration grace_ = model::kGracePeriod;
  std::optional<Deadline> running_end_;             // once the ranks of all nodes run
  std::optional<Deadline> time_out_;                // of the running time, or of the wait for nodes
  std::optional<Deadline> unattended_stop_;         // a rank failed and no command came
  std::optional<Deadline> next_kill_;               // when the next SIGKILL is due
  std::optional<Deadline> flush_;                   // output lines are collected until then
  std::vector<api::UnfinishedLine> unfinished_;     // as last reported to the daemon
  std::optional<Deadline> next_unfinished_report_;  // when to report the current ones
  Deadline next_activity_check_ = Deadline::after(Duration(0));  // activities of ranks
  Deadline next_log_check_ = Deadline::after(Duration(0));       // size of the log
  std::optional<Deadline> next_leftover_check_;  // when to check for leftovers again
  std::optional<Deadline> leftover_deadline_;    // when to give up on them
  bool no_leftovers_ = false;                    // at the last check
  std::optional<Deadline> exit_deadline_;        // when to exit without `leave`
};

}  // namespace lockstep::agent
