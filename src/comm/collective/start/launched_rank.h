// LaunchedRank: this process's rank, the number of ranks, and the job, from a launcher's
// environment. Known: lockstep run and torchrun (RANK, WORLD_SIZE), Open MPI's mpirun
// (OMPI_COMM_WORLD_RANK), MPICH's mpiexec and others with Hydra (PMI_RANK), Slurm's srun
// (SLURM_PROCID). The innermost launcher counts: mpirun within a Slurm job is mpirun.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/os/environment.h"
#include "base/result.h"

namespace lockstep::comm {

struct LaunchedRank {
  std::string launcher;  // "mpirun of Open MPI"
  int rank = 0;
  int size = 1;
  bool one_host = false;  // the launcher declares that all ranks are on this host
  std::string job;        // equal on all ranks of one start, and unique; valid as a file name
  std::optional<int> local_rank{}, local_size{};  // on this host, if the launcher says them
  std::optional<int> nodes{};                     // hosts, if the launcher says it
  // The descriptor of the launcher's key-value space; none: it has none.
  std::optional<std::string> pmi_fd{};
};

// MASTER_ADDR:MASTER_PORT, in the environment of ranks that have met as their launcher's variables
// say: RANK and the other variables of torch are then set too, and were not the launcher's.
inline constexpr const char* kMeetingPlace = "LOCKSTEP_MEETING_PLACE";

// Without the variables of torch, if the meeting of ranks has set them: the launcher's own ones are
// the same before and after the meeting.
Environment without_meeting(Environment environment);

// Nullopt: not set, or empty.
std::optional<std::string> value_of(const Environment& environment, std::string_view name);

// parent: identifies the process that started this one, for launchers that do not identify their
// job. job_name: the user's name of the job, which counts instead of both. Code::not_found: no
// launcher has started this process.
Result<LaunchedRank> launched_rank_of(const Environment& environment, const std::string& parent,
                                      const std::string& job_name = {});
// For this process.
Result<LaunchedRank> own_launched_rank();

// A name of a process that no other process of this boot has: ids are used again.
std::string process_identity(pid_t pid);
// 0: it has ended.
pid_t parent_of(pid_t pid);

}  // namespace lockstep::comm
