#include "platform/agent/ranks/rank_processes.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/processes.h"
#include "platform/core/model/attempt.h"

namespace lockstep::agent {
namespace {

bool is_running(const model::Rank& rank) { return rank.state == model::RankState::running; }

void record_end(model::Rank& rank, int status, bool signalled, Time moment) {
  const bool killed = WIFSIGNALED(status);
  rank.state = killed ? model::RankState::killed : model::RankState::exited;
  rank.code = killed ? WTERMSIG(status) : WEXITSTATUS(status);
  rank.signalled_by_agent = signalled;
  rank.ended = moment;
  LS_LOG(info, "rank {} {} {}", rank.rank, killed ? "was killed by signal" : "exited with",
         rank.code);
}

void reset_fault(model::Rank& rank) {
  rank.fault = report::Fault::none;
  rank.fault_rank = -1;
  rank.fault_text.clear();
}

std::vector<ProcessSample> group_of(const std::vector<Process>& all, std::int64_t leader) {
  std::vector<ProcessSample> group;
  for (const Process& process : all)
    if (process.group == leader || process.pid == leader)
      group.push_back({process, process.state == 'D' ? schedule_stats_of(process.pid) : ""});
  return group;
}

// An earlier network error in a rank's output does not explain its end.
constexpr Duration kPrintedFaultCounts = std::chrono::minutes(1);

// On a clock that does not jump.
Duration moment_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Result<Fd> RankProcesses::start(ProcessSpec program) {
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  model::Rank rank;
  rank.local_rank = static_cast<int>(ranks_.size());
  rank.rank = first_rank_ + rank.local_rank;
  rank.pid = TRY(spawn(program, ProcessLifetime::ends_with_thread));
  ranks_.push_back(rank);
  return std::move(output.read);
}

Result<Fd> RankProcesses::restart(int local_rank, ProcessSpec program) {
  auto& rank = ranks_[static_cast<std::size_t>(local_rank)];
  ::kill(-static_cast<pid_t>(rank.pid), SIGKILL);
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  model::Rank next{.rank = rank.rank, .local_rank = local_rank};
  next.pid = TRY(spawn(program, ProcessLifetime::ends_with_thread));
  next.step = rank.step;
  next.restarts = rank.restarts + 1;
  rank = next;
  return std::move(output.read);
}

bool RankProcesses::reap(Duration moment) {
  bool found = false;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto rank = std::ranges::find_if(
        ranks_, [pid](const auto& r) { return r.pid == pid && is_running(r); });
    if (rank == ranks_.end()) continue;
    const auto printed = printed_faults_.find(rank->local_rank);
    if (printed != printed_faults_.end() && moment - printed->second > kPrintedFaultCounts)
      reset_fault(*rank);
    record_end(*rank, status, signalled_, zero_ + moment);
    progress_watch_.remove_rank(rank->local_rank);
    activity_watch_.remove_rank(rank->local_rank);
    if (!signalled_) rank->stalled_since.reset();
    found = true;
  }
  return found;
}

std::vector<pid_t> RankProcesses::processes() const {
  std::vector<pid_t> ours;
  for (const Process& process : descendants(processes_of_user(), ::getpid()))
    ours.push_back(process.pid);
  return ours;
}

// First collects ranks that ended on their own, so that their end is not attributed to this signal.
// By pid and not by group: a group may be gone, and a second SIGTERM would break off an orderly
// end.
void RankProcesses::signal(int number) {
  reap(moment_now());
  if (!signalled_) update_activities();
  signalled_ = true;
  for (pid_t pid : processes()) ::kill(pid, number);
}

void RankProcesses::record_progress(int local_rank, std::int64_t step, Duration moment) {
  if (local_rank >= static_cast<int>(ranks_.size())) return;  // another program uses the socket
  model::Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  if (step > rank.step) {
    reset_fault(rank);
    printed_faults_.erase(local_rank);
  }
  rank.step = std::max(rank.step, step);
  if (is_running(rank)) progress_watch_.record_progress(local_rank, moment);
}

void RankProcesses::record_fault(int local_rank, const FaultReport& report) {
  if (local_rank >= static_cast<int>(ranks_.size())) return;
  model::Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  const bool known = rank.fault != report::Fault::none && !printed_faults_.contains(local_rank);
  if (!is_running(rank) || known) return;
  printed_faults_.erase(local_rank);
  LS_LOG(warning, "rank {} reports {}: {}", rank.rank, name_of(report.fault), report.text);
  rank.fault = report.fault;
  rank.fault_rank = report.rank;
  rank.fault_text = report.text;
}

void RankProcesses::record_printed_fault(int local_rank, report::Fault fault, std::string_view line,
                                         Duration moment) {
  if (local_rank >= static_cast<int>(ranks_.size())) return;
  model::Rank& rank = ranks_[static_cast<std::size_t>(local_rank)];
  const bool told = rank.fault != report::Fault::none && !printed_faults_.contains(local_rank);
  if (!is_running(rank) || told) return;
  if (printed_faults_.insert_or_assign(local_rank, moment).second) {
    rank.fault = fault;
    rank.fault_text = line;
  }
}

bool RankProcesses::update_stalled(Duration moment) {
  bool changed = false;
  for (model::Rank& rank : ranks_) {
    const auto silence = progress_watch_.time_without_progress(rank.local_rank, moment);
    if (!is_running(rank) || silence.has_value() == rank.stalled_since.has_value()) continue;
    if (silence) LS_LOG(warning, "rank {} has reported nothing for {}", rank.rank, text(*silence));
    rank.stalled_since = silence ? std::optional(zero_ + (moment - *silence)) : std::nullopt;
    changed = true;
  }
  if (changed) update_activities();
  return changed;
}

const model::Rank* RankProcesses::first_stalled() const {
  const auto rank = std::ranges::find_if(
      ranks_, [](const auto& r) { return is_running(r) && r.stalled_since.has_value(); });
  return rank == ranks_.end() ? nullptr : &*rank;
}

bool RankProcesses::update_activities() {
  const std::vector<Process> all = processes_of_user();
  const Duration moment = moment_now();
  bool changed = false;
  for (model::Rank& rank : ranks_) {
    if (!is_running(rank)) continue;
    const auto doing = activity_watch_.observe(rank.local_rank, group_of(all, rank.pid), moment);
    if (doing.activity == model::Activity::unknown) continue;
    const bool same = doing.since && rank.activity == doing.activity && rank.activity_since;
    changed = changed || (doing.since ? !same : rank.activity_since.has_value());
    rank.activity = doing.activity;
    if (!doing.since) rank.activity_since.reset();
    if (doing.since && !same) rank.activity_since = zero_ + *doing.since;
  }
  return changed;
}

bool RankProcesses::any_running() const { return std::ranges::any_of(ranks_, is_running); }

bool RankProcesses::any_ended_badly() const {
  return std::ranges::any_of(ranks_, model::ended_badly);
}

bool RankProcesses::any_failed() const {
  return std::ranges::any_of(ranks_, [](const model::Rank& rank) {
    return model::ended_badly(rank) && rank.state == model::RankState::exited;
  });
}

const model::Rank* RankProcesses::first_killed() const {
  const auto rank = std::ranges::find_if(ranks_, [](const model::Rank& each) {
    return model::ended_badly(each) && each.state == model::RankState::killed;
  });
  return rank == ranks_.end() ? nullptr : &*rank;
}

}  // namespace lockstep::agent
