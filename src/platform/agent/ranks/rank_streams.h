// RankStreams: the output pipes and report sockets of a node's ranks.
//
// Complete lines are collected for 100 ms, and then passed on. Incomplete lines are collected once
// a second. The values of secrets are replaced before anything is written or passed on.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "platform/agent/ranks/rank_output.h"
#include "platform/agent/ranks/report_socket.h"
#include "platform/agent/ranks/secret_mask.h"
#include "platform/api/agent_messages.h"

namespace lockstep::agent {

class RankStreams {
 public:
  struct Sinks {
    std::function<void(int local_rank, std::string lines)> lines;
    std::function<void(int local_rank, RankReport report)> report;
  };
  RankStreams(Sinks sinks, SecretMask mask) : sinks_(std::move(sinks)), mask_(std::move(mask)) {}

  // Opens the log and the report socket of the next rank.
  Result<void> add(int rank, const std::filesystem::path& log, const std::filesystem::path& socket);
  // The output of the rank's process.
  void set_pipe(int local_rank, Fd pipe) { at(local_rank).pipe = std::move(pipe); }

  // To be polled for reading: descriptors and local ranks. The descriptors of a rank are adjacent.
  std::vector<std::pair<int, int>> fds() const;
  void read(int local_rank) { read(at(local_rank)); }
  // Also passes on the lines that are complete: output of a rank about its end must be reported
  // before the end.
  void read_all();
  // Reads what is left, and closes the pipes.
  void finish();
  // No process holds a pipe or a socket of a rank.
  bool all_closed() const;

  // Passes on lines that are due. True if unfinished() has changed.
  bool pass_on_due_lines();
  std::optional<Duration> time_until_due() const;
  // Complete lines replace the incomplete ones that were collected before, so that no line is shown
  // twice.
  const std::vector<api::UnfinishedLine>& unfinished() const { return unfinished_; }

 private:
  struct Stream {
    int rank = 0;
    Fd pipe;  // none before the start and after the end
    SecretMask mask;
    RankOutput output;
    ReportSocket reports;
    std::chrono::steady_clock::time_point last_read = std::chrono::steady_clock::now();
  };

  Stream& at(int local_rank) { return streams_.at(static_cast<std::size_t>(local_rank)); }
  void read(Stream& stream);
  bool flush();
  std::vector<api::UnfinishedLine> unfinished_lines() const;

  const Sinks sinks_;
  const SecretMask mask_;
  std::vector<Stream> streams_;  // by local rank
  std::vector<api::UnfinishedLine> unfinished_;
  std::optional<Deadline> next_flush_;
  std::optional<Deadline> next_unfinished_;  // when to collect them
};

}  // namespace lockstep::agent
