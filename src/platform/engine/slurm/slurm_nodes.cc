#include "platform/engine/slurm/slurm_nodes.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;

constexpr std::array<std::string_view, 7> kPendingStates = {
    "PENDING",     "CONFIGURING",  "REQUEUED",     "REQUEUE_HOLD",
    "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"};
constexpr std::array<std::string_view, 11> kEndStates = {
    "COMPLETED", "FAILED",   "CANCELLED", "TIMEOUT",       "NODE_FAIL",    "PREEMPTED",
    "BOOT_FAIL", "DEADLINE", "REVOKED",   "OUT_OF_MEMORY", "LAUNCH_FAILED"};

// The words of srun for a step, of its slurmstepd with cgroups, and of the one that measures steps
// itself (OverMemoryKill).
constexpr std::array<std::string_view, 4> kMemoryWords = {
    "Out Of Memory", "oom-kill event", "exceeded memory limit", "Exceeded job memory limit"};

// Limits of Slurm's accounting, by a part of the reason. The first that fits counts.
struct LimitWords {
  std::string_view begin, part;
  std::string_view explanation;
};
constexpr std::array<LimitWords, 9> kLimits = {
    {{"", "PerJob", "the run asks for more than this limit of its account or QOS: it never starts"},
     {"", "PerNode",
      "the run asks for more on a host than this limit of its account or QOS: it never starts"},
     {"PartitionNodeLimit", "", "the run asks for more hosts than the partition allows"},
     {"PartitionTimeLimit", "", "the run asks for more time than the partition allows"},
     {"QOSGrp", "", "the jobs of its QOS together have reached a limit"},
     {"AssocGrp", "", "the jobs of its account together have reached a limit"},
     {"", "PerUser", "the jobs of its user together have reached a limit"},
     {"", "PerAccount", "the jobs of its account together have reached a limit"},
     {"AssocMaxJobsLimit", "", "the jobs of its account together have reached a limit"}}};

// "QOSGrpGRES", or "QOSGrpGRES (the jobs of its QOS together have reached a limit)".
std::string explained(const std::string& reason) {
  for (const LimitWords& limit : kLimits)
    if (reason.starts_with(limit.begin) && reason.find(limit.part) != std::string::npos)
      return format("{} ({})", reason, limit.explanation);
  return reason;
}

std::string pending_words(const SlurmJob& job) {
  if (job.state == "CONFIGURING") return format("Slurm prepares the hosts of job {}", job.id);
  if (job.reason.empty() || job.reason == "None") return format("Slurm has queued job {}", job.id);
  const auto start =
      job.expected_start
          ? format("; it expects the start at {}",
                   text(std::chrono::floor<std::chrono::minutes>(*job.expected_start)))
          : "";
  return format("Slurm keeps job {} in its queue: {}{}", job.id, explained(job.reason), start);
}

// The host of the node as Slurm names it.
const std::string& own_host(const SlurmNodeFiles& files, const std::vector<SlurmHost>& hosts) {
  const SlurmHost* host = find_slurm_host(hosts, files.host);
  return host ? name_for_slurm(*host) : files.host;
}

struct End {
  std::string reason;
  EndBlame blame = EndBlame::unknown;
  bool out_of_memory = false;
};

End node_fail(const SlurmJob& job, const SlurmNodeFiles& files,
              const std::vector<SlurmHost>& hosts) {
  for (const std::string& name : job.hosts) {
    const SlurmHost* host = find_slurm_host(hosts, name);
    if (host && is_slurm_host_down(*host) && name != own_host(files, hosts))
      return {format("Slurm ended job {} because its host {} failed", job.id, name),
              EndBlame::engine};
  }
  return {format("Slurm ended job {} because a host failed", job.id), EndBlame::host};
}

// The end of a node whose host still counts for Slurm. An agent that ran tells its own reason.
End end_in_words(const SlurmJob& job, const SlurmNodeFiles& files,
                 const std::vector<SlurmHost>& hosts) {
  if (job.state == "NODE_FAIL") return node_fail(job, files, hosts);
  if (job.state == "PREEMPTED")
    return {format("Slurm preempted job {}", job.id), EndBlame::preemption};
  if (job.state == "BOOT_FAIL")
    return {format("a host of Slurm's job {} did not boot", job.id), EndBlame::host};
  if (job.state == "OUT_OF_MEMORY" || files.out_of_memory)
    return {format("out of memory: Slurm's job {} used more than it was given; ask for more with "
                   "`needs: memory`, or use less",
                   job.id),
            EndBlame::unknown, true};
  if (job.state == "TIMEOUT" || job.state == "DEADLINE")
    return {format("Slurm ended job {} at its time limit", job.id), EndBlame::engine};
  if (job.state == "CANCELLED" || job.state == "REVOKED")
    return {format("Slurm's job {} was cancelled", job.id), EndBlame::engine};
  if (files.has_started) return {};
  if (!files.start_error.empty())
    return {format("Slurm's job {}: {}", job.id, files.start_error), EndBlame::host};
  return {format("Slurm's job {} ended ({}) before the agent started; the output of the job is "
                 "slurm.log in the folder of the attempt",
                 job.id, job.reason.empty() || job.reason == "None" ? job.state : job.reason),
          EndBlame::engine};
}

End end_of(const SlurmJob& job, const SlurmNodeFiles& files, const std::vector<SlurmHost>& hosts) {
  const SlurmHost* host = find_slurm_host(hosts, files.host);
  if (host && is_slurm_host_down(*host)) return {why_slurm_closed(*host), EndBlame::host};
  return end_in_words(job, files, hosts);
}

}  // namespace

bool tells_out_of_memory(std::string_view output) {
  return std::ranges::any_of(kMemoryWords, [&](std::string_view words) {
    return output.find(words) != std::string_view::npos;
  });
}

bool is_slurm_job_pending(const SlurmJob& job) {
  return std::ranges::find(kPendingStates, job.state) != kPendingStates.end();
}

bool is_slurm_job_over(const SlurmJob& job) {
  return std::ranges::find(kEndStates, job.state) != kEndStates.end();
}

model::Observation observe_slurm_node(const SlurmJob& job, const SlurmStep* step,
                                      const SlurmNodeFiles& files,
                                      const std::vector<SlurmHost>& hosts) {
  model::Observation seen{.handle = format("{}", job.id)};
  if (files.slurm_chose_host) seen.host = files.host;
  if (is_slurm_job_pending(job)) {
    const SlurmHost* host = find_slurm_host(hosts, files.host);
    if (std::string closed = host ? why_slurm_closed(*host) : ""; !closed.empty()) {
      seen.phase = NodePhase::gone;
      seen.reason = std::move(closed);
      seen.blame = EndBlame::host;
      return seen;
    }
    seen.phase = NodePhase::pending;
    seen.reason = pending_words(job);
    return seen;
  }
  const bool is_over = is_slurm_job_over(job);
  if (step && !is_over) {
    seen.handle = format("{}.{}", job.id, step->number);
    return seen;
  }
  const bool completes = job.state == "COMPLETING";
  if (completes && !files.step_ended &&
      std::ranges::find(job.hosts, own_host(files, hosts)) != job.hosts.end()) {
    seen.has_agent = false;
    return seen;
  }
  if (!is_over && !completes && !files.has_started && !files.step_ended) {
    seen.phase = NodePhase::starting;
    return seen;
  }
  End end = end_of(job, files, hosts);
  seen.phase = NodePhase::gone;
  seen.reason = std::move(end.reason);
  seen.blame = end.blame;
  seen.out_of_memory = end.out_of_memory;
  return seen;
}

}  // namespace lockstep::engine
