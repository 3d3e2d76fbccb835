#include "comm/collective/start/launched_rank.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "net/crypto.h"

namespace lockstep::comm {
namespace {

// The variables of one launcher; empty if it does not have them.
struct LauncherVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;                // ranks on this host
  const char* nodes;                     // hosts
  std::vector<const char*> job;          // the variables that together identify the job
  std::vector<const char*> must_be_set;  // else the variables are those of another launcher
  bool has_pmi = false;                  // PMI_FD is its own
};

const std::vector<LauncherVariables>& known_launchers() {
  static const auto* all = new std::vector<LauncherVariables>{
      {"lockstep run",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       "",
       {"LOCKSTEP_ATTEMPT"},
       {"LOCKSTEP_ATTEMPT"}},
      {"torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       "",
       {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
       {}},
      {"mpirun of Open MPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       "",
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
       {}},
      {"mpiexec of MPICH",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       "",
       {},
       {"MPI_LOCALNRANKS"},  // srun --mpi=pmi2 sets the first two as well
       true},
      {"srun",
       "SLURM_PROCID",
       "SLURM_NTASKS",
       "SLURM_LOCALID",
       "",
       "SLURM_STEP_NUM_NODES",
       {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
       {"SLURM_STEP_ID"},
       true},
  };
  return *all;
}

Result<int> number_in(const Environment& environment, const char* name) {
  const auto value = value_of(environment, name);
  if (!value) return Error{Code::invalid, format("{} is not set", name)};
  int number = 0;
  const auto* const end = value->data() + value->size();
  const auto [stop, failure] = std::from_chars(value->data(), end, number);
  if (failure != std::errc() || stop != end || number < 0)
    return Error{Code::invalid, format("{} must be a number, got '{}'", name, *value)};
  return number;
}

bool matches_environment(const LauncherVariables& dialect, const Environment& environment) {
  if (!value_of(environment, dialect.rank)) return false;
  for (const auto* name : dialect.must_be_set)
    if (!value_of(environment, name)) return false;
  return true;
}

Result<LaunchedRank> read(const LauncherVariables& dialect, const Environment& environment,
                          const std::string& parent, const std::string& job_name) {
  LaunchedRank launch;
  launch.launcher = dialect.launcher;
  launch.rank = TRY(number_in(environment, dialect.rank));
  launch.size = TRY(number_in(environment, dialect.size));
  if (launch.rank >= launch.size)
    return Error{Code::invalid, format("{} {} is not below {} {}", dialect.rank, launch.rank,
                                       dialect.size, launch.size)};
  const auto is = [&](const char* name, int number) {
    const auto value = number_in(environment, name);
    return value && *value == number;
  };
  if (auto number = number_in(environment, dialect.local_rank)) launch.local_rank = *number;
  if (auto number = number_in(environment, dialect.local_size)) launch.local_size = *number;
  if (auto number = number_in(environment, dialect.nodes)) launch.nodes = *number;
  if (dialect.has_pmi) launch.pmi_fd = value_of(environment, "PMI_FD");
  launch.one_host = is(dialect.local_size, launch.size) || is(dialect.nodes, 1);
  std::string named = job_name;
  if (job_name.empty())
    for (const auto* name : dialect.job) named += value_of(environment, name).value_or("") + "/";
  if (named.find_first_not_of('/') == std::string::npos) {
    if (!launch.one_host && !launch.pmi_fd)
      return Error{Code::invalid,
                   format("{} does not name its job, by which ranks on several hosts could find "
                          "each other: set MASTER_ADDR, RANK and WORLD_SIZE, or use lockstep run",
                          dialect.launcher)};
    named = parent;
  }
  launch.job =
      net::sha256_hex(format("{}:{}:{}", dialect.launcher, launch.size, named)).substr(0, 16);
  return launch;
}

// proc(5): the fields are counted after the program's name, which may contain spaces.
constexpr int kParentField = 2;
constexpr int kStartTimeField = 20;

std::string field_of_stat(pid_t pid, int number) {
  const auto stat = read_file(format("/proc/{}/stat", pid)).value_or("");
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string value;
  for (int field = 0; field < number; ++field) fields >> value;
  return value;
}

}  // namespace

std::optional<std::string> value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(std::string(name));
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

// A launcher that such a rank has started sets another place.
Environment without_meeting(Environment environment) {
  const auto place = value_of(environment, kMeetingPlace);
  const auto address = value_of(environment, "MASTER_ADDR");
  const auto port = value_of(environment, "MASTER_PORT");
  if (!place || !address || !port || *place != format("{}:{}", *address, *port)) return environment;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    environment.erase(name);
  return environment;
}

Result<LaunchedRank> launched_rank_of(const Environment& environment, const std::string& parent,
                                      const std::string& job_name) {
  for (const auto& dialect : known_launchers())
    if (matches_environment(dialect, environment))
      return read(dialect, environment, parent, job_name);
  return Error{Code::not_found,
               "no launcher has said which rank this is: start it by lockstep run, torchrun, "
               "mpirun or srun, or set RANK and WORLD_SIZE"};
}

Result<LaunchedRank> own_launched_rank() {
  return launched_rank_of(own_environment(), process_identity(::getppid()));
}

// With its start time a process is identified uniquely.
std::string process_identity(pid_t pid) {
  return format("{}-{}", pid, field_of_stat(pid, kStartTimeField));
}

pid_t parent_of(pid_t pid) { return std::atoi(field_of_stat(pid, kParentField).c_str()); }

}  // namespace lockstep::comm
