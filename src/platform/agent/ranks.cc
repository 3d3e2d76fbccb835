#include "platform/agent/ranks.h"

#include <algorithm>
#include <csignal>
#include <set>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/processes.h"
#include "platform/core/model/attempt.h"

namespace lockstep {
namespace {

bool is_running(const api::RankReport& rank) { return rank.state == name_of(RankState::running); }

void note_end(api::RankReport& rank, int status, bool signalled, Time now) {
  const bool killed = WIFSIGNALED(status);
  rank.state = name_of(killed ? RankState::killed : RankState::exited);
  rank.code = killed ? WTERMSIG(status) : WEXITSTATUS(status);
  rank.signalled_by_us = signalled;
  rank.ended = now;
  LS_LOG(info, "rank {} {} {}", rank.rank, killed ? "was killed by signal" : "exited with",
         rank.code);
}

}  // namespace

Result<Fd> Ranks::start(Program program) {
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  api::RankReport rank;
  rank.local_rank = static_cast<int>(reports_.size());
  rank.rank = first_rank_ + rank.local_rank;
  rank.pid = TRY(spawn(program, Bond::thread));
  rank.state = name_of(RankState::running);
  reports_.push_back(rank);
  return std::move(output.read);
}

bool Ranks::reap(Time now) {
  bool found = false;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    auto rank = std::ranges::find_if(
        reports_, [pid](const auto& r) { return r.pid == pid && is_running(r); });
    if (rank == reports_.end()) continue;
    note_end(*rank, status, signalled_, now);
    found = true;
  }
  return found;
}

std::vector<pid_t> Ranks::processes() const {
  const std::vector<Process> all = processes_of_user();
  std::set<pid_t> ours;
  for (const Process& process : descendants(all, ::getpid())) ours.insert(process.pid);
  for (const Process& process : all)
    if (environment_of(process.pid, "LOCKSTEP_NODE_TOKEN") == token_) ours.insert(process.pid);
  ours.erase(::getpid());
  return {ours.begin(), ours.end()};
}

// First what has ended on its own, so that it is not taken for ended by this signal. By pid and not
// by group: a group may be gone, and a second SIGTERM would break off an orderly end.
void Ranks::signal(int number, Signaller signaller) {
  reap(SystemClock().now());
  if (signaller == Signaller::agent) signalled_ = true;
  for (pid_t pid : processes()) ::kill(pid, number);
}

bool Ranks::any_running() const { return std::ranges::any_of(reports_, is_running); }

bool Ranks::any_ended_badly() const {
  return std::ranges::any_of(reports_, [](const api::RankReport& rank) {
    return !is_running(rank) && !rank.signalled_by_us &&
           (rank.state == name_of(RankState::killed) || rank.code != 0);
  });
}

}  // namespace lockstep
