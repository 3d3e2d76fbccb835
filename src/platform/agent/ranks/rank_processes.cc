#include "platform/agent/ranks/rank_processes.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/processes.h"

namespace lockstep::agent {
namespace {

std::vector<ProcessSample> group_of(const std::vector<Process>& all, pid_t leader) {
  std::vector<ProcessSample> group;
  for (const Process& process : all)
    if (process.group == leader || process.pid == leader)
      group.push_back({process, process.state == 'D' ? schedule_stats_of(process.pid) : ""});
  return group;
}

RankEnd end_of(int local_rank, int status) {
  if (WIFSIGNALED(status)) return {local_rank, model::RankState::killed, WTERMSIG(status)};
  return {local_rank, model::RankState::exited, WEXITSTATUS(status)};
}

struct StartedProcess {
  pid_t pid = 0;
  Fd output;
};

Result<StartedProcess> start_process(ProcessSpec program) {
  Pipe output = TRY(make_pipe());
  ::fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  program.output = output.write.get();
  const pid_t pid = TRY(spawn(program, ProcessLifetime::ends_with_thread));
  return StartedProcess{pid, std::move(output.read)};
}

}  // namespace

Result<Fd> RankProcesses::start(ProcessSpec program) {
  StartedProcess started = TRY(start_process(std::move(program)));
  ranks_.push_back({.pid = started.pid});
  return std::move(started.output);
}

Result<Fd> RankProcesses::restart(int local_rank, ProcessSpec program) {
  RankProcess& rank = ranks_.at(static_cast<std::size_t>(local_rank));
  ::kill(-rank.pid, SIGKILL);
  StartedProcess started = TRY(start_process(std::move(program)));
  rank = {.pid = started.pid};
  return std::move(started.output);
}

std::vector<RankEnd> RankProcesses::reap() {
  std::vector<RankEnd> ends;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto rank = std::ranges::find_if(
        ranks_, [pid](const RankProcess& each) { return each.running && each.pid == pid; });
    if (rank == ranks_.end()) continue;
    rank->running = false;
    const int local_rank = static_cast<int>(rank - ranks_.begin());
    activity_watch_.remove_rank(local_rank);
    ends.push_back(end_of(local_rank, status));
  }
  return ends;
}

RanksChecked RankProcesses::check(Duration moment) {
  const std::vector<Process> all = processes_of_user();
  RanksChecked found;
  for (int local = 0; local < static_cast<int>(ranks_.size()); ++local)
    if (const RankProcess& rank = ranks_[static_cast<std::size_t>(local)]; rank.running)
      found.activities[local] = activity_watch_.observe(local, group_of(all, rank.pid), moment);
  for (const Process& process : descendants(all, ::getpid())) found.cpu_time += process.cpu_time;
  return found;
}

void RankProcesses::set_apart_running() {
  for (const Process& process : descendants(processes_of_user(), ::getpid()))
    apart_.emplace(process.pid, process.started);
}

std::vector<pid_t> RankProcesses::processes() const {
  const std::vector<Process> all = processes_of_user();
  std::set<pid_t> apart;
  for (const Process& process : all) {
    if (!apart_.contains({process.pid, process.started})) continue;
    apart.insert(process.pid);
    for (const Process& child : descendants(all, process.pid)) apart.insert(child.pid);
  }
  std::vector<pid_t> ours;
  for (const Process& process : descendants(all, ::getpid()))
    if (!apart.contains(process.pid)) ours.push_back(process.pid);
  return ours;
}

bool RankProcesses::is_wrapper(pid_t pid) const {
  return have_wrappers_ && std::ranges::any_of(ranks_, [pid](const RankProcess& rank) {
           return rank.running && rank.pid == pid;
         });
}

// A wrapper that has not started its program yet is signalled itself.
void RankProcesses::signal(int number) const {
  const std::vector<Process> all = have_wrappers_ ? processes_of_user() : std::vector<Process>();
  for (pid_t pid : processes())
    if (number == SIGKILL || !is_wrapper(pid) || descendants(all, pid).empty()) ::kill(pid, number);
}

}  // namespace lockstep::agent
