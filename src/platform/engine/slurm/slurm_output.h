// The output of squeue and sinfo as data. The formats are explicit, so that they are the same in
// all versions of Slurm and with any settings of a site.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::engine {

// Times are seconds since 1970: kSlurmTimeFormat is in the environment of squeue.
inline constexpr std::string_view kJobFormat = "%i|%T|%r|%N|%D|%S|%k";
inline constexpr std::pair<std::string_view, std::string_view> kSlurmTimeFormat{"SLURM_TIME_FORMAT",
                                                                                "%s"};
inline constexpr std::string_view kStepFormat = "%i|%j|%N";
inline constexpr std::string_view kHostFormat = "%N|%T|%G|%c|%m|%o|%R|%b|%E";

struct SlurmJob {
  std::int64_t id = 0;
  std::string state;   // such as RUNNING
  std::string reason;  // why it is in that state, a word such as Resources; "None": no reason
  std::vector<std::string> hosts;  // empty while it is pending; when it completes: those left
  int host_count = 0;
  std::optional<Time> expected_start{};  // of a pending one, if Slurm has estimated it
  std::string comment;
  bool has_duplicate = false;  // a younger job of its attempt is not over
};

// A step of a job that has processes.
struct SlurmStep {
  std::int64_t job = 0;
  std::string number;  // such as 0, or batch
  std::string name;
};

// GPUs of one type on a host.
struct SlurmGpus {
  std::string type{};  // empty: they have none
  int count = 0;
  bool operator==(const SlurmGpus&) const = default;
};

struct SlurmHost {
  std::string name, address;
  std::string state;   // such as idle, drained, down; without its flags
  std::string flags;   // such as *: it does not respond
  std::string reason;  // the administrator's or Slurm's own; empty: none
  int gpus = 0, cores = 0;
  std::vector<SlurmGpus> gpu_types{};  // each type once
  std::int64_t memory_mib = 0;
  std::vector<std::string> partitions, features{};
  std::string partition{};  // the one of the daemon's by which it is used
  std::string whole{};      // of a part (slurm_parts.h): the host as Slurm names it
};

// The name that Slurm knows.
inline const std::string& name_for_slurm(const SlurmHost& host) {
  return host.whole.empty() ? host.name : host.whole;
}
// By its own name or by Slurm's, where all parts have the same state; null: it is not there.
const SlurmHost* find_slurm_host(const std::vector<SlurmHost>& hosts, std::string_view name);

// Lines of another form, such as warnings, are left out. A host has a line for each partition.
std::vector<SlurmJob> parse_slurm_jobs(std::string_view output);
std::vector<SlurmStep> parse_slurm_steps(std::string_view output);
std::vector<SlurmHost> parse_slurm_hosts(std::string_view output);
// The name of the default partition, from `sinfo -h -o %P`; empty: there is none.
std::string default_slurm_partition(std::string_view output);
// From `scontrol show topology`: the hosts of each leaf switch, and the switch above all of them.
// A block of topology/block (23.11 and later) is a leaf switch.
struct SlurmSwitch {
  std::string name;
  int level = 0;
  std::vector<std::string> hosts, switches;
};
std::vector<SlurmSwitch> parse_slurm_switches(std::string_view output);
// From `sbatch --parsable`: 123, or 123;cluster.
Result<std::int64_t> parse_submitted_job(std::string_view output);

// "n[1-3,07],gpu5" to its names.
std::vector<std::string> expand_host_list(std::string_view list);
// "gpu:a100:4(S:0-1),nic:2" to 4.
int gpu_count(std::string_view gres);
// Each type once, in the order of the text: four of "a100" here.
std::vector<SlurmGpus> gpu_types(std::string_view gres);

// Why Slurm gives the host to no job; empty: it does.
std::string why_slurm_closed(const SlurmHost& host);
// Slurm says that its processes are lost.
bool is_slurm_host_down(const SlurmHost& host);

}  // namespace lockstep::engine
