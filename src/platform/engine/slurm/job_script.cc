#include "platform/engine/slurm/job_script.h"

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "base/format.h"
#include "platform/engine/local/agent_program.h"
#include "platform/host/node_files.h"

namespace lockstep::engine {
namespace {

constexpr std::string_view kCommentPrefix = "lockstep ";
constexpr std::string_view kNodesField = " nodes=";
// The steps get SIGTERM so long before the end of the job by its time limit: the agents end their
// ranks, which save. Slurm may send it up to a minute earlier.
constexpr std::string_view kWarningSignal = "--signal=TERM@90";
constexpr int kJobNodesMax = 100'000;  // a damaged comment must not take all memory

// For bash: 'a'\''b'.
std::string bash_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

// Rounded up.
std::int64_t mebibytes_of(Bytes memory) {
  constexpr std::int64_t kMebibyte = 1 << 20;
  return (memory.count() + kMebibyte - 1) / kMebibyte;
}

// The hosts that Slurm has chosen, and their addresses, as the script's variables. A host has a
// line for each partition.
constexpr std::string_view kHostLines =
    "hosts=($(scontrol show hostnames \"$SLURM_JOB_NODELIST\"))\n"
    "declare -A addresses\n"
    "while read -r host address; do addresses[$host]=$address; done \\\n"
    "  < <(sinfo -h -N -n \"$SLURM_JOB_NODELIST\" -o '%N %o')\n";

// The script's words for what depends on the host.
struct StepPlace {
  std::string record{};   // a line that keeps the name of the host
  std::string host{};     // its name
  std::string options{};  // of the agent
};

StepPlace place_of(const SlurmJobNode& node) {
  if (!node.host.empty()) return {.host = bash_quoted(node.host)};
  const std::string file = bash_quoted(step_host_file(node.folder).string());
  return {.record = format("  host=${{hosts[{}]}}\n  echo \"$host\" >{}\n", node.index, file),
          .host = "\"$host\"",
          .options = " --address \"${addresses[$host]:-$host}\""};
}

std::string step_lines(const SlurmJobNode& node, const SlurmJobRequest& job,
                       const SlurmJobOptions& options) {
  const model::NodeName name{job.attempt.generation, {job.attempt.id, node.index}};
  const host::NodeFiles files{node.folder};
  const StepPlace place = place_of(node);
  return format(
      "(\n"
      "  export {}={}\n"
      "{}"
      "  srun --nodes=1 --ntasks=1 --nodelist={} --job-name={} --overlap --no-kill \\\n"
      "    --cpu-bind=none --mpi=none --input=none {} agent{} {} >>{} 2>&1\n"
      "  echo $? >{}\n"
      ") &\n",
      host::kNodeToken, bash_quoted(node_token(options.installation, name)), place.record,
      place.host, slurm_step_name(node.index), bash_quoted(options.program.string()), place.options,
      bash_quoted(files.launch_file().string()), bash_quoted(files.agent_log().string()),
      bash_quoted(step_end_file(node.folder).string()));
}

}  // namespace

std::string slurm_comment(const std::string& installation, const SlurmJobName& job) {
  return format("{}{}:{}:{} nodes={}", kCommentPrefix, installation, job.attempt.generation,
                text(job.attempt.id), job.nodes);
}

std::optional<SlurmJobName> job_in_comment(std::string_view comment,
                                           const std::string& installation) {
  const std::string prefix = format("{}{}:", kCommentPrefix, installation);
  if (!comment.starts_with(prefix)) return std::nullopt;
  comment.remove_prefix(prefix.size());
  const std::size_t end = comment.find(kNodesField);
  if (end == std::string_view::npos) return std::nullopt;
  const auto node = model::parse_node_name(format("{}/0", comment.substr(0, end)));
  const std::string_view count = comment.substr(end + kNodesField.size());
  int nodes = 0;
  const auto [last, failure] = std::from_chars(count.data(), count.data() + count.size(), nodes);
  if (!node || failure != std::errc() || nodes < 1 || nodes > kJobNodesMax) return std::nullopt;
  return SlurmJobName{node->attempt(), nodes};
}

std::string slurm_step_name(int index) { return format("node-{}", index); }

std::filesystem::path step_end_file(const std::filesystem::path& node_folder) {
  return node_folder / "step.end";
}
std::filesystem::path step_host_file(const std::filesystem::path& node_folder) {
  return node_folder / "step.host";
}
std::filesystem::path job_script_file(const std::filesystem::path& attempt_folder) {
  return attempt_folder / "slurm.sh";
}
std::filesystem::path job_output_file(const std::filesystem::path& attempt_folder) {
  return attempt_folder / "slurm.log";
}

// Empty: Slurm chooses them.
std::vector<std::string> named_hosts(const SlurmJobRequest& job) {
  std::vector<std::string> hosts;
  for (const SlurmJobNode& node : job.nodes)
    if (!node.host.empty()) hosts.push_back(node.host);
  return hosts;
}

// A number in --output, such as %j, would be replaced. Among equal options sbatch takes the last.
std::vector<std::string> sbatch_command(const SlurmJobRequest& job,
                                        const SlurmJobOptions& options) {
  const auto minutes = std::chrono::ceil<std::chrono::minutes>(job.time_limit).count();
  std::vector<std::string> words = {
      "sbatch",
      "--parsable",
      "--no-requeue",
      "--no-kill",
      "--job-name=" + text(job.attempt.id),
      "--comment=" +
          slurm_comment(options.installation, {job.attempt, static_cast<int>(job.nodes.size())}),
      format("--nodes={}", job.nodes.size()),
      "--ntasks-per-node=1",
      format("--cpus-per-task={}", job.cores),
      format("--time={}", minutes),
      std::string(kWarningSignal),
      "--chdir=/",
      "--open-mode=append",
      "--output=" + job_output_file(job.folder).string()};
  if (job.memory > Bytes(0)) words.push_back(format("--mem={}M", mebibytes_of(job.memory)));
  if (job.account) words.push_back("--uid=" + job.account->name);
  if (job.gpus > 0 && job.asked.gpu_type)
    words.push_back(format("--gres=gpu:{}:{}", *job.asked.gpu_type, job.gpus));
  else if (job.gpus > 0)
    words.push_back(format("--gres=gpu:{}", job.gpus));
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) words.push_back(format("--{}={}", name, value));
  };
  add("nodelist", joined(named_hosts(job), ","));
  add("exclude", joined(job.excluded, ","));
  add("partition", job.partition);
  add("account", options.account);
  words.insert(words.end(), options.more.begin(), options.more.end());
  add("partition", job.asked.partition.value_or(""));
  add("account", job.asked.account.value_or(""));
  add("qos", job.asked.qos.value_or(""));
  add("constraint", job.asked.constraint.value_or(""));
  add("switches", job.asked.switches.value_or(""));
  if (job.asked.options)
    words.insert(words.end(), job.asked.options->begin(), job.asked.options->end());
  words.push_back(job_script_file(job.folder).string());
  return words;
}

// A step gets all processors of the job on its host: without SLURM_CPUS_PER_TASK, srun takes no
// part of them.
std::string job_script(const SlurmJobRequest& job, const SlurmJobOptions& options) {
  std::string script = format(
      "#!/bin/bash\n"
      "# Attempt {} of Lockstep: a step with an agent on each host.\n"
      "unset SLURM_CPUS_PER_TASK SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE\n",
      text(job.attempt.id));
  if (job.account)
    script += format("export HOME={} USER={} LOGNAME={} SHELL={}\n", bash_quoted(job.account->home),
                     bash_quoted(job.account->name), bash_quoted(job.account->name),
                     bash_quoted(job.account->shell));
  if (named_hosts(job).empty()) script += kHostLines;
  for (const SlurmJobNode& node : job.nodes) script += step_lines(node, job, options);
  return script + "wait\n";
}

}  // namespace lockstep::engine
