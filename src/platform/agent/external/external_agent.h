// ExternalAgent: the agent of an external job on one host. It starts no ranks: they connect to it.
// It collects their reports, delivers them to the daemon, and reports how the ranks end
// (docs/design/external-runs.md).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/os/fd.h"
#include "base/units.h"
#include "platform/agent/external/external_link.h"
#include "platform/agent/external/job_folder.h"
#include "platform/agent/external/job_ranks.h"
#include "platform/agent/external/presence_socket.h"
#include "platform/agent/link/heartbeat_sender.h"
#include "platform/agent/link/media_sender.h"
#include "platform/agent/ranks/report_socket.h"
#include "platform/agent/watch/telemetry_watch.h"
#include "platform/core/model/state.h"

namespace lockstep::agent {

struct ExternalAgentTimes {
  Duration first_rank = std::chrono::minutes(1);         // ends without a rank after it
  Duration silence_told = std::chrono::seconds(10);      // of the daemon, before rank 0 warns
  Duration exit_without_leave = std::chrono::hours(24);  // after the end of the last rank
  Duration last_items = std::chrono::minutes(5);         // after `leave`
  Duration refusal_limit = std::chrono::minutes(10);
  Duration telemetry_interval = std::chrono::seconds(1);
};

// The identity of one start of the agent, for its request and its heartbeats.
struct AgentStart {
  std::string incarnation;
  std::string machine;
  Time at{};
};
AgentStart this_start();

class ExternalAgent {
 public:
  using Status = std::function<AttachStatus()>;

  // Listens for ranks. `link` must outlive the agent; `status` tells of it. `url`: for users.
  static Result<std::unique_ptr<ExternalAgent>> open(const JobFolder& folder, AgentStart start,
                                                     std::string url);
  // Those that have joined so far. By any thread.
  std::vector<model::Rank> known_ranks() const;
  // Runs until the job has ended and the daemon has everything, or until a bound. `media` finds
  // where images and histograms go. SIGTERM and SIGINT must be blocked in all threads.
  Result<void> run(DaemonLink& link, const Status& status, const MediaSender::Find& media,
                   const ExternalAgentTimes& times);

 private:
  ExternalAgent(const JobFolder& folder, AgentStart start, std::string url);

  Result<RankPlaces> add_rank(const RankHello& hello);
  void handle_report(int rank, RankReport report);
  void handle_leaving(int rank, const std::string& error);
  void handle_end(int rank, const RankFarewell& farewell);
  void await_first_rank();
  Result<void> start_sender();
  void watch_telemetry();
  void pass_on_telemetry();
  void run_once();
  void read_reports();
  void read_signals();
  void await_own_signal();
  void answer_leaving();
  void tell_of_attachment();
  void tell(std::string note);
  void send_notes();
  bool is_over();
  void send_status();
  api::Heartbeat heartbeat() const;

  const JobFolder folder_;
  const AgentStart start_;
  const std::string url_;
  const model::ClockRow clock_;
  JobRanks ranks_;
  mutable Mutex mutex_;  // guards what follows
  std::vector<model::Rank> known_ranks_ LS_GUARDED_BY(mutex_);
  std::optional<PresenceSocket> presence_;
  std::map<int, ReportSocket> reports_;  // by rank
  Fd signals_;
  bool is_signalled_ = false;
  bool has_awaited_signal_ = false;
  std::vector<std::string> notes_;  // for rank 0, not sent yet
  bool has_told_of_run_ = false;
  bool has_told_of_error_ = false;
  bool has_told_of_end_ = false;

  // While run() runs.
  DaemonLink* link_ = nullptr;
  Status status_;
  ExternalAgentTimes times_;
  std::unique_ptr<HeartbeatSender> sender_;  // from the first rank on
  std::optional<MediaSender> media_sender_;  // the same
  std::optional<TelemetryWatch> telemetry_;  // while a rank runs
  std::vector<telemetry::GpuOfRun> gpus_;    // of all ranks so far
  MediaSender::Find media_;
  Duration begun_{};
  std::optional<Duration> all_ended_since_;
  std::optional<Duration> leaves_since_;
};

}  // namespace lockstep::agent
