#include "platform/agent/ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/processes.h"
#include "platform/core/model/attempt.h"

namespace lockstep {
namespace {

bool is_running(const Rank& rank) { return rank.state == RankState::running; }

void note_end(Rank& rank, int status, bool signalled, Time moment) {
  const bool killed = WIFSIGNALED(status);
  rank.state = killed ? RankState::killed : RankState::exited;
  rank.code = killed ? WTERMSIG(status) : WEXITSTATUS(status);
  rank.signalled_by_us = signalled;
  rank.ended = moment;
  LS_LOG(info, "rank {} {} {}", rank.rank, killed ? "was killed by signal" : "exited with",
         rank.code);
}

void forget_fault(Rank& rank) {
  rank.fault = Fault::none;
  rank.fault_rank = -1;
  rank.fault_text.clear();
}

std::vector<Seen> group_of(const std::vector<Process>& all, std::int64_t leader) {
  std::vector<Seen> group;
  for (const Process& process : all)
    if (process.group == leader || process.pid == leader)
      group.push_back({process, process.state == 'D' ? run_count_of(process.pid) : ""});
  return group;
}

// Later, what a rank has printed of the network says nothing of its end.
constexpr Duration kPrintedFaultCounts = std::chrono::minutes(1);

// On a clock that does not jump.
Duration moment_now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

Result<Fd> Ranks::start(Program program) {
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  Rank rank;
  rank.local_rank = static_cast<int>(reports_.size());
  rank.rank = first_rank_ + rank.local_rank;
  rank.pid = TRY(spawn(program, Bond::thread));
  reports_.push_back(rank);
  return std::move(output.read);
}

Result<Fd> Ranks::replace(int local_rank, Program program) {
  auto& rank = reports_[static_cast<std::size_t>(local_rank)];
  ::kill(-static_cast<pid_t>(rank.pid), SIGKILL);
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  Rank next{.rank = rank.rank, .local_rank = local_rank};
  next.pid = TRY(spawn(program, Bond::thread));
  next.step = rank.step;
  next.restarts = rank.restarts + 1;
  rank = next;
  return std::move(output.read);
}

bool Ranks::reap(Duration moment) {
  bool found = false;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto rank = std::ranges::find_if(
        reports_, [pid](const auto& r) { return r.pid == pid && is_running(r); });
    if (rank == reports_.end()) continue;
    const auto printed = printed_faults_.find(rank->local_rank);
    if (printed != printed_faults_.end() && moment - printed->second > kPrintedFaultCounts)
      forget_fault(*rank);
    note_end(*rank, status, signalled_, zero_ + moment);
    watch_.end(rank->local_rank);
    activities_.end(rank->local_rank);
    if (!signalled_) rank->stalled_since.reset();
    found = true;
  }
  return found;
}

std::vector<pid_t> Ranks::processes() const {
  std::vector<pid_t> ours;
  for (const Process& process : descendants(processes_of_user(), ::getpid()))
    ours.push_back(process.pid);
  return ours;
}

// First what has ended on its own, so that it is not taken for ended by this signal. By pid and not
// by group: a group may be gone, and a second SIGTERM would break off an orderly end.
void Ranks::signal(int number) {
  reap(moment_now());
  if (!signalled_) look();
  signalled_ = true;
  for (pid_t pid : processes()) ::kill(pid, number);
}

void Ranks::note_progress(int local_rank, std::int64_t step, Duration moment) {
  if (local_rank >= static_cast<int>(reports_.size())) return;  // somebody else knows the socket
  Rank& rank = reports_[static_cast<std::size_t>(local_rank)];
  if (step > rank.step) {
    forget_fault(rank);
    printed_faults_.erase(local_rank);
  }
  rank.step = std::max(rank.step, step);
  if (is_running(rank)) watch_.note(local_rank, moment);
}

void Ranks::note_fault(int local_rank, const FaultReport& said) {
  if (local_rank >= static_cast<int>(reports_.size())) return;
  Rank& rank = reports_[static_cast<std::size_t>(local_rank)];
  const bool known = rank.fault != Fault::none && !printed_faults_.contains(local_rank);
  if (!is_running(rank) || known) return;
  printed_faults_.erase(local_rank);
  LS_LOG(warning, "rank {} reports {}: {}", rank.rank, name_of(said.fault), said.text);
  rank.fault = said.fault;
  rank.fault_rank = said.rank;
  rank.fault_text = said.text;
}

void Ranks::note_printed_fault(int local_rank, Fault fault, std::string_view line,
                               Duration moment) {
  if (local_rank >= static_cast<int>(reports_.size())) return;
  Rank& rank = reports_[static_cast<std::size_t>(local_rank)];
  const bool told = rank.fault != Fault::none && !printed_faults_.contains(local_rank);
  if (!is_running(rank) || told) return;
  if (printed_faults_.insert_or_assign(local_rank, moment).second) {
    rank.fault = fault;
    rank.fault_text = line;
  }
}

bool Ranks::find_stalled(Duration moment) {
  bool changed = false;
  for (Rank& rank : reports_) {
    const auto silence = watch_.silence(rank.local_rank, moment);
    if (!is_running(rank) || silence.has_value() == rank.stalled_since.has_value()) continue;
    if (silence) LS_LOG(warning, "rank {} has reported nothing for {}", rank.rank, text(*silence));
    rank.stalled_since = silence ? std::optional(zero_ + (moment - *silence)) : std::nullopt;
    changed = true;
  }
  if (changed) look();
  return changed;
}

const Rank* Ranks::stalled() const {
  const auto rank = std::ranges::find_if(
      reports_, [](const auto& r) { return is_running(r) && r.stalled_since.has_value(); });
  return rank == reports_.end() ? nullptr : &*rank;
}

bool Ranks::look() {
  const std::vector<Process> all = processes_of_user();
  const Duration moment = moment_now();
  bool changed = false;
  for (Rank& rank : reports_) {
    if (!is_running(rank)) continue;
    const auto doing = activities_.look(rank.local_rank, group_of(all, rank.pid), moment);
    if (doing.activity == Activity::unknown) continue;
    const bool same = doing.since && rank.activity == doing.activity && rank.activity_since;
    changed = changed || (doing.since ? !same : rank.activity_since.has_value());
    rank.activity = doing.activity;
    if (!doing.since) rank.activity_since.reset();
    if (doing.since && !same) rank.activity_since = zero_ + *doing.since;
  }
  return changed;
}

bool Ranks::any_running() const { return std::ranges::any_of(reports_, is_running); }

bool Ranks::any_ended_badly() const { return std::ranges::any_of(reports_, ended_badly); }

bool Ranks::any_failed() const {
  return std::ranges::any_of(reports_, [](const Rank& rank) {
    return ended_badly(rank) && rank.state == RankState::exited;
  });
}

const Rank* Ranks::killed() const {
  const auto rank = std::ranges::find_if(reports_, [](const Rank& each) {
    return ended_badly(each) && each.state == RankState::killed;
  });
  return rank == reports_.end() ? nullptr : &*rank;
}

}  // namespace lockstep
