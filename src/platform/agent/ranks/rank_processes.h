// RankProcesses: the processes of a node's ranks, and their leftovers.
//
// Each rank leads a process group. A rank's children may leave the group and session and outlive
// their rank. They are found as descendants of the agent, which is their subreaper. Nothing here
// reads the memory of a process, because the agent might have to wait for that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/os/fd.h"
#include "base/os/spawn.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/agent/core/event.h"
#include "platform/agent/watch/activity_watch.h"

namespace lockstep::agent {

class RankProcesses {
 public:
  // Starts the next rank; returns a non-blocking pipe with all its output. Call it only from a
  // thread that lives as long as the agent.
  Result<Fd> start(ProcessSpec program);

  // Starts another process for a rank that was killed, and kills the rest of its process group.
  Result<Fd> restart(int local_rank, ProcessSpec program);

  // The processes that run now, before the first rank, are not those of ranks, nor are their
  // descendants: they hold the container of an image.
  void set_apart_running();
  // Each rank's own process is a wrapper, which passes signals on to the program that it starts.
  void expect_wrappers() { have_wrappers_ = true; }

  // Collects all ended children, ranks and others; returns the ranks.
  std::vector<RankEnd> reap();
  // Looks at the processes of the running ranks. moment: now, on a clock that does not jump.
  RanksChecked check(Duration moment);

  // Signals every process of the node once. By pid and not by group: a group may be gone, and a
  // second SIGTERM would break off an orderly end. So a wrapper gets SIGKILL only.
  void signal(int number) const;
  // All living processes of the node except the agent, and those set apart. A process whose parent
  // ends during the scan may be missing: scan twice to be sure.
  std::vector<pid_t> processes() const;
  pid_t pid(int local_rank) const { return ranks_.at(static_cast<std::size_t>(local_rank)).pid; }

 private:
  struct RankProcess {
    pid_t pid = 0;
    bool running = true;
  };
  bool is_wrapper(pid_t pid) const;

  ActivityWatch activity_watch_;
  std::set<std::pair<pid_t, std::uint64_t>> apart_;  // by pid and start
  bool have_wrappers_ = false;
  std::vector<RankProcess> ranks_;  // by local rank
};

}  // namespace lockstep::agent
