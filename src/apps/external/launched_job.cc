#include "apps/external/launched_job.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/os/files.h"
#include "comm/collective/start/launched_rank.h"
#include "net/crypto.h"
#include "platform/core/model/ids.h"
#include "platform/host/machine.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyDigits = 16;

std::string digest_of(std::string_view text) { return net::sha256_hex(text).substr(0, kKeyDigits); }

std::string variable(const Environment& environment, std::string_view name) {
  return comm::value_of(environment, name).value_or("");
}

// Several launchers set the same variables.
std::string launcher_name(const std::string& known, const Environment& environment) {
  const auto has = [&](std::string_view name) { return comm::value_of(environment, name); };
  const std::string slurm_job = variable(environment, "SLURM_JOB_ID");
  if (known == "srun") return format("srun (Slurm job {})", slurm_job);
  if (known != "torchrun") return known;
  if (has("ACCELERATE_MIXED_PRECISION")) return "accelerate launch";
  if (has("TORCHELASTIC_RUN_ID")) return known;
  if (has("CROSS_RANK")) return "deepspeed";
  if (has("RAY_JOB_ID")) return "Ray";
  // The script has set the variables of torch itself.
  if (has("OMPI_COMM_WORLD_RANK")) return "mpirun of Open MPI";
  if (has("MPI_LOCALNRANKS")) return "mpiexec of MPICH";
  if (has("SLURM_STEP_ID")) return format("srun (Slurm job {})", slurm_job);
  return "a launcher that sets RANK";
}

// The ranks of a job whose meeting place is on loopback are all on this host.
bool meets_on_loopback(const Environment& environment) {
  const std::string address = variable(environment, "MASTER_ADDR");
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// deepspeed has a name of its own for it.
std::optional<int> ranks_on_host(const comm::LaunchedRank& rank, const Environment& environment) {
  if (rank.local_size) return rank.local_size;
  const int size = std::atoi(variable(environment, "LOCAL_SIZE").c_str());
  return size > 0 ? std::optional(size) : std::nullopt;
}

// A name that no other start of the launcher on this host has. A user's name of the job counts
// alone.
std::string start_of(pid_t process, const Environment& environment, const std::string& job_name) {
  if (!job_name.empty()) return "";
  if (comm::value_of(environment, "SLURM_STEP_ID"))
    return format("{}/{}/{}", variable(environment, "SLURM_JOB_ID"),
                  variable(environment, "SLURM_STEP_ID"),
                  variable(environment, "SLURM_RESTART_COUNT"));
  return comm::process_identity(comm::parent_of(process));
}

comm::LaunchedRank single_rank(pid_t process, const std::string& job_name) {
  comm::LaunchedRank alone;
  alone.launcher = "its user";
  alone.one_host = job_name.empty();
  alone.job = digest_of(job_name.empty() ? comm::process_identity(process) : job_name);
  alone.local_size = 1;
  return alone;
}

std::vector<std::string> command_of(pid_t process) {
  const auto words = read_file(format("/proc/{}/cmdline", process)).value_or("");
  std::vector<std::string> command;
  for (std::size_t at = 0; at < words.size();) {
    const auto end = std::min(words.find('\0', at), words.size());
    command.push_back(words.substr(at, end - at));
    at = end + 1;
  }
  // A process that has renamed itself leaves empty words.
  while (!command.empty() && command.back().empty()) command.pop_back();
  if (command.empty()) command.emplace_back("unknown");
  return command;
}

std::string working_folder_of(pid_t process) {
  std::error_code failed;
  const fs::path folder = fs::read_symlink(format("/proc/{}/cwd", process), failed);
  return failed ? "" : folder.string();
}

bool is_interpreter(const std::string& program) {
  const std::string name = fs::path(program).filename().string();
  return name.starts_with("python") || name == "bash" || name == "sh";
}

}  // namespace

std::string script_name(const std::vector<std::string>& command) {
  std::size_t at = 0;
  if (command.size() > 1 && is_interpreter(command[0]))
    for (at = 1; at + 1 < command.size() && command[at].starts_with('-'); ++at) {
      if (command[at] == "-c") return fs::path(command[0]).stem().string();
      if (command[at] == "-m") return command[at + 1];
    }
  return fs::path(command[at]).stem().string();
}

void set_shape(model::RunSpec& spec, const JobShape& shape) {
  int devices = 1;
  if (shape.ranks_on_host)
    devices = *shape.ranks_on_host;
  else if (shape.hosts)
    devices = shape.ranks / std::max(1, *shape.hosts);
  spec.devices = std::clamp(devices, 1, std::min(shape.ranks, model::kDevicesMax));
  spec.nodes = std::clamp(shape.ranks / spec.devices, 1, model::kNodesMax);
  spec.remainder = spec.nodes == model::kNodesMax ? 0 : shape.ranks % spec.devices;
}

Result<LaunchedJob> launched_job_of(pid_t process, const Environment& environment) {
  const std::string job_name = variable(environment, "LOCKSTEP_JOB");
  const std::string start = start_of(process, environment, job_name);
  auto launched = comm::launched_rank_of(environment, start, job_name);
  if (!launched && launched.error().code == Code::not_found)
    launched = single_rank(process, job_name);
  comm::LaunchedRank rank = TRY(std::move(launched));
  // A process that has finished a rank and reports again is another job.
  rank.job += variable(environment, "LOCKSTEP_SESSION");
  LaunchedJob job;
  job.rank = rank.rank;
  job.local_rank = rank.local_rank;
  job.folder = digest_of(format("{}:{}", rank.job, start));
  const host::Machine machine = host::this_machine();
  const bool one_host = rank.one_host || meets_on_loopback(environment);
  const bool is_local = one_host && job_name.empty();
  job.request.job =
      is_local ? digest_of(format("{}:{}:{}:{}", rank.job, start, machine.id, machine.boot))
               : digest_of(rank.job);
  job.request.launcher = launcher_name(rank.launcher, environment);
  model::RunSpec& spec = job.request.spec;
  spec.command = command_of(process);
  spec.working_folder = working_folder_of(process);
  spec.name = variable(environment, "LOCKSTEP_RUN_NAME");
  if (spec.name.empty()) spec.name = script_name(spec.command);
  if (const auto project = comm::value_of(environment, "LOCKSTEP_PROJECT")) {
    TRY(model::check_name("LOCKSTEP_PROJECT", *project));
    spec.project = *project;
  }
  set_shape(spec, {.ranks = rank.size,
                   .ranks_on_host = ranks_on_host(rank, environment),
                   .hosts = one_host ? std::optional(1) : rank.nodes});
  return job;
}

}  // namespace lockstep::cli
