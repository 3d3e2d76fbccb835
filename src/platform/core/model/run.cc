#include "platform/core/model/run.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"
#include "platform/core/model/limit_signal.h"
#include "platform/core/model/secret_name.h"
#include "platform/core/model/stand_in.h"
#include "platform/core/model/upload.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kRunNameLimit = 200;
constexpr std::size_t kAfterLimit = 100;
constexpr std::size_t kTextLimit = 256 << 10;
constexpr std::size_t kSecretsLimit = 100;
constexpr Bytes kMemoryLimit = Bytes(std::int64_t{1} << 60);

Error invalid(std::string message) { return {Code::invalid, std::move(message)}; }

Result<void> check_count(std::string_view what, int count, int least, int limit) {
  if (count >= least && count <= limit) return {};
  return invalid(format("{}: must be from {} to {}, got {}", what, least, limit, count));
}

bool has_nul(std::string_view input) { return input.find('\0') != std::string_view::npos; }

// For values that are stored and displayed as text.
Result<void> check_utf8(std::string_view what, std::string_view input) {
  if (is_utf8(input)) return {};
  return invalid(format("{}: '{}' is not UTF-8", what, escape_controls(input)));
}

// Tables and messages contain the name: it is one line, moves no cursor, and does not look like a
// run id.
Result<void> check_run_name(std::string_view name) {
  const bool plain = is_printable(name) && name.find('/') == std::string_view::npos;
  if (plain && name.size() <= kRunNameLimit) return {};
  return invalid(
      format("name: must be one line of at most {} bytes without control characters, characters "
             "that turn the direction of text, and '/'",
             kRunNameLimit));
}

Result<void> check_command(const std::vector<std::string>& command) {
  if (command.empty() || command[0].empty())
    return invalid("command: names no program; put it after '--': lockstep run -- python train.py");
  if (std::ranges::any_of(command, has_nul)) return invalid("command: has a word with a NUL byte");
  for (const std::string& word : command) TRY(check_utf8("command", word));
  return {};
}

// The daemon keeps the spec of every open run in memory.
Result<void> check_size(const RunSpec& spec) {
  std::size_t bytes = 0;
  for (const std::string& word : spec.command) bytes += word.size();
  for (const auto& [name, value] : spec.env) bytes += name.size() + value.size();
  if (bytes <= kTextLimit) return {};
  return invalid(
      format("command and env: have {} in all, and a run may have {}; put large values "
             "into a file",
             lockstep::text(Bytes(static_cast<std::int64_t>(bytes))),
             lockstep::text(Bytes(static_cast<std::int64_t>(kTextLimit)))));
}

// The Lockstep variables that users may set. Lockstep sets the others for ranks.
bool is_user_setting(std::string_view name) {
  return name == "LOCKSTEP_ALGORITHM" || name == "LOCKSTEP_BIND" || name == "LOCKSTEP_COSTS" ||
         name == "LOCKSTEP_CONNECTION_TIMEOUT" || name == "LOCKSTEP_FABRIC_PROVIDER" ||
         name == "LOCKSTEP_FLIGHT_DIR" || name == "LOCKSTEP_INTERFACE" || name == "LOCKSTEP_LOG" ||
         name == "LOCKSTEP_PORT_RANGE" || name == "LOCKSTEP_STEP_TIMES" ||
         name == "LOCKSTEP_TENSORBOARD" || name == kReplaceBackend || name == kWandb ||
         name == kHorovod;
}

Result<void> check_replaced_backend(std::string_view names) {
  constexpr std::string_view kAllowed[] = {"", "gloo", "nccl", "gloo,nccl", "nccl,gloo"};
  if (std::ranges::find(kAllowed, names) != std::end(kAllowed)) return {};
  return invalid(
      format("env: {} (--replace-backend): '{}' is not a backend that can be replaced; "
             "write gloo, nccl or gloo,nccl",
             kReplaceBackend, escape_controls(names)));
}

bool is_variable(std::string_view name) {
  return !name.empty() && name.find_first_of("= ") == std::string_view::npos && is_printable(name);
}

Result<void> check_env(const std::map<std::string, std::string>& env) {
  for (const auto& [name, value] : env) {
    if (!is_variable(name) || has_nul(value))
      return invalid(
          format("env: '{}' is not the name of an environment variable", escape_controls(name)));
    // The message omits the value, which may be a secret.
    if (!is_utf8(value)) return invalid(format("env: the value of {} is not UTF-8", name));
    if (name.starts_with("LOCKSTEP_") && !is_user_setting(name))
      return invalid(format("env: '{}' is Lockstep's own; choose another name", name));
    if (name == kReplaceBackend) TRY(check_replaced_backend(value));
  }
  return {};
}

Result<void> check_secrets(const RunSpec& spec) {
  if (!spec.secrets) return {};
  if (spec.secrets->size() > kSecretsLimit)
    return invalid(
        format("secrets: a run has at most {}, got {}", kSecretsLimit, spec.secrets->size()));
  for (const auto& [variable, secret] : *spec.secrets) {
    if (!is_variable(variable) || variable.starts_with("LOCKSTEP_"))
      return invalid(
          format("secrets: '{}' is not the name of an environment variable that a "
                 "secret can set",
                 escape_controls(variable)));
    if (spec.env.contains(variable))
      return invalid(format("secrets: {} is in env, too; leave one of them out", variable));
    if (auto checked = check_secret_name(secret); !checked)
      return std::move(checked).error().with_context("secrets: " + variable);
  }
  return {};
}

Result<void> check_folder(std::string_view what, std::string_view path) {
  TRY(check_utf8(what, path));
  if (path.empty() || (path.starts_with('/') && !has_nul(path))) return {};
  return invalid(format("{}: must be an absolute path, got '{}'", what, path));
}

// The error names the limit of the class that the spec exceeds, and what to do.
Result<void> check_class(const RunSpec& spec) {
  const Duration most = timeout_max(spec.run_class);
  if (spec.timeout && *spec.timeout > most)
    return invalid(format(
        "timeout: a run of class {} takes at most {}, got {}; shorten it, or "
        "leave the class out",
        lockstep::name_of(spec.run_class), lockstep::text(most), lockstep::text(*spec.timeout)));
  if (spec.run_class == RunClass::debug && node_count(spec) > 1)
    return invalid(
        format("nodes: a run of class debug has one node, got {}; ask for one, or leave "
               "the class out",
               node_count(spec)));
  return {};
}

Result<void> check_memory(std::string_view what, Bytes memory) {
  if (memory >= Bytes(0) && memory <= kMemoryLimit) return {};
  return invalid(format("needs: {}: must be from 0 to {}, got {}", what,
                        lockstep::text(kMemoryLimit), lockstep::text(memory)));
}

Result<void> check_needs(const Needs& needs) {
  TRY(check_count("needs: cores", needs.cores, 0, kCoresMax));
  TRY(check_memory("memory", needs.memory));
  TRY(check_memory("device_memory", needs.device_memory));
  if (!needs.labels) return {};
  if (auto checked = map::check_labels(*needs.labels); !checked)
    return std::move(checked).error().with_context("needs: labels");
  return {};
}

// The error names the second field.
Result<void> check_software(const RunSpec& spec) {
  std::string_view given;
  const auto one_more = [&](bool is_given, std::string_view field) -> Result<void> {
    if (!is_given) return {};
    if (!given.empty())
      return invalid(
          format("{}: a run has one environment, and names {}, too; leave one out", field, given));
    given = field;
    return {};
  };
  TRY(one_more(spec.venv.has_value(), "venv"));
  TRY(one_more(spec.conda.has_value(), "conda"));
  TRY(one_more(spec.module.has_value(), "module"));
  TRY(one_more(spec.image.has_value(), "image"));
  if (spec.runtime && !spec.image)
    return invalid("runtime: is for an image; name one, or leave it out");
  if (spec.mounts && !spec.image)
    return invalid("mounts: are for an image; name one, or leave them out");
  const auto environment = software_environment(spec);
  return environment ? check(*environment) : Result<void>();
}

Result<void> check_upload(const std::optional<std::string>& upload) {
  if (!upload || is_sha256(*upload)) return {};
  return invalid(
      format("upload: '{}' is no id of an uploaded folder; `lockstep run --upload` sends "
             "one",
             escape_controls(*upload)));
}

Result<void> check_after_names(const std::vector<std::string>& after) {
  if (after.size() > kAfterLimit)
    return invalid(format("after: must name at most {} runs, got {}", kAfterLimit, after.size()));
  for (const std::string& run : after)
    if (auto id = parse_run_id(run); !id) return std::move(id).error().with_context("after");
  return {};
}

}  // namespace

Duration timeout_max(RunClass run_class) {
  return run_class == RunClass::debug ? kDebugTimeoutMax : kTimeoutMax;
}

Duration timeout_default(RunClass run_class, const Settings& settings) {
  switch (run_class) {
    case RunClass::debug:
      return settings.timeout_debug;
    case RunClass::normal:
      return settings.timeout_normal;
    case RunClass::preemptible:
      return settings.timeout_preemptible;
  }
  return settings.timeout_normal;
}

Duration time_limit(const Run& run) {
  return run.spec.timeout.value_or(timeout_default(run.spec.run_class, {})) + run.extended;
}

bool has_condition(const Run& run) {
  return run.state == RunState::queued &&
         (run.not_before || run.awaits_dependencies || run.awaits_budget);
}

bool waits_for_devices(const Run& run) {
  return run.state == RunState::queued && !run.not_before && !run.held &&
         !run.awaits_dependencies && !run.awaits_budget;
}

std::string_view text(RunState state) { return lockstep::name_of(state); }

bool is_final(RunState state) {
  return state == RunState::succeeded || state == RunState::failed ||
         state == RunState::timed_out || state == RunState::cancelled;
}

std::optional<SoftwareEnvironment> software_environment(const RunSpec& spec) {
  if (spec.venv) return SoftwareEnvironment{.kind = SoftwareKind::venv, .name = *spec.venv};
  if (spec.conda) return SoftwareEnvironment{.kind = SoftwareKind::conda, .name = *spec.conda};
  if (spec.module)
    return SoftwareEnvironment{.kind = SoftwareKind::module, .modules = *spec.module};
  if (!spec.image) return std::nullopt;
  const auto fitting = is_image_file(*spec.image) ? ImageRuntime::apptainer : ImageRuntime::podman;
  return SoftwareEnvironment{.kind = SoftwareKind::image,
                             .name = *spec.image,
                             .runtime = spec.runtime.value_or(fitting),
                             .mounts = spec.mounts.value_or(std::vector<std::string>())};
}

Needs placement_needs(const RunSpec& spec) {
  Needs needs = spec.needs;
  if (spec.kubernetes) needs.tolerations = spec.kubernetes->tolerations;
  return needs;
}

std::vector<std::string> ignored_sections(const RunSpec& spec, std::string_view engine) {
  std::vector<std::string> ignored;
  if (spec.slurm && engine != kSlurmEngine) ignored.emplace_back("slurm");
  if (spec.kubernetes && engine != kPodEngine) ignored.emplace_back("kubernetes");
  return ignored;
}

int node_count(const RunSpec& spec) { return spec.nodes + (spec.remainder > 0 ? 1 : 0); }
int rank_count(const RunSpec& spec) { return spec.nodes * spec.devices + spec.remainder; }
int devices_on_node(const RunSpec& spec, int index) {
  return index < spec.nodes ? spec.devices : spec.remainder;
}

Result<void> check(const RunSpec& spec) {
  TRY(check_name("project", spec.project));
  TRY(check_run_name(spec.name));
  TRY(check_command(spec.command));
  TRY(check_count("nodes", spec.nodes, 1, kNodesMax));
  TRY(check_count("devices", spec.devices, 1, kDevicesMax));
  TRY(check_count("remainder", spec.remainder, 0, spec.devices - 1));
  if (spec.timeout && (*spec.timeout <= Duration(0) || *spec.timeout > kTimeoutMax))
    return invalid(format("timeout: must be more than 0 and at most {}, got {}",
                          lockstep::text(kTimeoutMax), lockstep::text(*spec.timeout)));
  if (spec.signal)
    if (auto signal = parse_limit_signal(*spec.signal); !signal)
      return std::move(signal).error().with_context("signal");
  if (spec.hang_after < Duration(0) || spec.hang_after > kTimeoutMax)
    return invalid(format("hang_after: must be from 0 (never) to {}, got {}",
                          lockstep::text(kTimeoutMax), lockstep::text(spec.hang_after)));
  TRY(check_count("retries", spec.retries, 0, kRetriesMax));
  TRY(check_count("rank_loss_retries", spec.rank_loss_retries, 0, kRetriesMax));
  TRY(check_class(spec));
  TRY(check_count("priority", spec.priority, -kPriorityMax, kPriorityMax));
  TRY(check_after_names(spec.after));
  TRY(check_needs(spec.needs));
  if (spec.processes) TRY(check_count("processes", *spec.processes, 1, kProcessesMax));
  if (spec.slurm)
    if (auto checked = check(*spec.slurm); !checked)
      return std::move(checked).error().with_context("slurm");
  if (spec.kubernetes)
    if (auto checked = check(*spec.kubernetes); !checked)
      return std::move(checked).error().with_context("kubernetes");
  TRY(check_env(spec.env));
  TRY(check_secrets(spec));
  TRY(check_software(spec));
  TRY(check_size(spec));
  TRY(check_folder("working_folder", spec.working_folder));
  TRY(check_upload(spec.upload));
  return check_folder("checkpoint_folder", spec.checkpoint_folder);
}

}  // namespace lockstep::model
