// AgentLoop: the agent's main thread, one poll loop over the ranks' output, their report sockets,
// signals and the daemon's orders. docs/design/agent.md tells the whole story.
//
//   waiting > running > stopping > clearing > ended
//
// waiting: addresses are offered, `start` has not come. running: the ranks were started. stopping:
// they were asked to end, and will be made to. clearing: no rank is left, what they left behind is
// killed and their last words are read. ended: all is told; `leave` has not come.
#pragma once

#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "comm/rendezvous/forwarder.h"
#include "comm/rendezvous/server.h"
#include "net/reserved_port.h"
#include "platform/agent/death_notices.h"
#include "platform/agent/messenger.h"
#include "platform/agent/output.h"
#include "platform/agent/rank_environment.h"
#include "platform/agent/ranks.h"
#include "platform/agent/report_socket.h"
#include "platform/agent/socket_folder.h"
#include "platform/agent/straggler_watch.h"
#include "platform/core/model/attempt.h"
#include "platform/core/model/state.h"
#include "platform/engine/launch.h"
#include "platform/host/kept_folder.h"
#include "platform/host/node_files.h"

namespace lockstep {

class AgentLoop {
 public:
  // Takes the ports, sockets and files of the node. SIGCHLD, SIGTERM and SIGINT must be blocked in
  // all threads; `token` marks the node's processes. `launch` and `link` are borrowed for its life.
  static Result<std::unique_ptr<AgentLoop>> open(const Launch& launch, const NodeId& node,
                                                 std::string token, DaemonLink& link);
  ~AgentLoop();

  // Until the daemon lets the agent go.
  void run();

 private:
  enum class Phase { waiting, running, stopping, clearing, ended };
  // What the loop reads from one rank.
  struct Source {
    int rank = 0;
    Fd pipe;  // none before the start and after the end
    Output output;
    ReportSocket reports;
    bool death_told = false;  // among the run's events
  };

  AgentLoop(const Launch& launch, const NodeId& node, std::string token, ReservedPort port,
            SocketFolder sockets, Fd signals);
  Result<void> open_rendezvous();
  Result<int> open_store();
  Result<void> open_sources();
  Result<void> write_secret() const;
  NodeFiles own_files() const { return {folder_.path()}; }
  std::filesystem::path report_path(int local_rank) const;

  void turn();
  Duration patience() const;
  void read_source(Source& source);
  void take_report(int local_rank, Item item);
  void take_report(int local_rank, const FaultReport& said);
  void read_signals();
  void follow_orders();
  void mind_time();
  void mind_progress();
  void mind_activities();
  void hear_last_words();
  void note_lines(int local_rank, std::string_view lines);
  void mind_stragglers();
  void bound_log();
  bool may_leave() const;

  void start_ranks(const Command& command);
  Program program_of(int local_rank, bool replaces) const;
  Result<void> start_rank(Source& source, int local_rank);
  void replace_killed();
  void tell_deaths();
  void add_event(int rank, std::string words);
  bool ends_the_others() const;
  void await_other_nodes();
  void count_running_time();
  void grant_running_time();
  // message: the reason for people; empty where a command asked for it.
  void begin_stop(StopReason reason, std::string message);
  void make_end();
  void reaped();
  void clear();
  void finish();
  void flush();
  std::vector<api::UnfinishedLine> unfinished_now() const;
  void tell_unfinished();
  api::Heartbeat status() const;
  void tell() { messenger_->tell(status()); }
  bool sources_silent() const;

  // Constant after construction.
  const Launch& launch_;
  const NodeId node_;
  const NodeFiles files_;    // as ranks are told
  const KeptFolder folder_;  // the same, for the agent itself
  const std::string token_;

  ReservedPort port_;
  SocketFolder sockets_;
  Fd signals_;
  const ClockRow clock_;  // of what it tells; it is not read again when the wall clock is set
  std::unique_ptr<RendezvousServer> rendezvous_;  // on node 0
  std::unique_ptr<Forwarder> forwarder_;  // on other nodes, where MASTER_ADDR is not loopback
  int store_port_ = 0;                    // of torch's store, on loopback, as Meeting has it
  std::vector<Source> sources_;           // by local rank
  Ranks ranks_;
  std::unique_ptr<Messenger> messenger_;
  std::optional<std::vector<std::vector<int>>> processors_;  // by local rank, once they start
  std::optional<StragglerWatch> stragglers_;                 // while ranks run, on node 0
  DeathNotices death_notices_;

  Phase phase_ = Phase::waiting;
  NodeState state_ = NodeState::ready;
  StopReason stop_reason_ = StopReason::none;
  std::string message_;
  Orders orders_;
  Command start_;         // by which the ranks were started
  int replacements_ = 0;  // ranks that were started again
  bool told_to_leave_ = false;
  Duration grace_ = kGrace;
  std::optional<Deadline> running_end_;  // once all nodes' ranks run
  std::optional<Deadline> time_out_;     // of the running time; of the wait for the others before
  std::optional<Deadline> stop_alone_;   // a rank ended badly and no word of the daemon came
  std::optional<Deadline> force_;        // when SIGKILL is (again) due
  std::optional<Deadline> flush_;        // lines wait for company
  std::vector<api::UnfinishedLine> unfinished_;            // as the daemon was told them
  std::optional<Deadline> unfinished_look_;                // when to tell what they are now
  Deadline activity_look_ = Deadline::after(Duration(0));  // when to look what ranks do
  Deadline log_look_ = Deadline::after(Duration(0));       // when to look how large the log is
  std::optional<Deadline> clear_look_;                     // when to look again for what is left
  std::optional<Deadline> clear_end_;                      // when to give up on it
  bool nothing_left_ = false;                              // at the last look
  std::optional<Deadline> leave_;                          // when to go without the daemon's leave
};

}  // namespace lockstep
