#include "platform/agent/software/preparation.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "base/format.h"
#include "base/utf8.h"
#include "comm/flight/memory.h"
#include "platform/agent/software/scripts.h"
#include "text/json.h"

namespace lockstep::agent {
namespace {

using model::ImageRuntime;
using model::SoftwareEnvironment;
using model::SoftwareKind;

constexpr std::string_view kEnvironmentMark{"\0lockstep-environment\0", 22};
constexpr std::string_view kMissingMark{"\0lockstep-missing\0", 18};
constexpr std::string_view kOutputMark{"\0lockstep-output\0", 17};
constexpr std::string_view kEndMark{"lockstep-end\0", 13};
constexpr std::string_view kKeep = "LOCKSTEP_KEEP_";
constexpr std::string_view kContainer = "LOCKSTEP_CONTAINER";
constexpr std::string_view kCondaState = "LOCKSTEP_CONDA_STATE";
constexpr std::size_t kDetailMax = 240;

// They describe the script's own shell, or the container.
constexpr std::string_view kNotForRanks[] = {"_",      "SHLVL",    "PWD",
                                             "OLDPWD", "HOSTNAME", "LOCKSTEP_HOLD"};

bool uses_podman(const SoftwareEnvironment& software) {
  return software.kind == SoftwareKind::image && software.runtime == ImageRuntime::podman;
}
bool uses_apptainer(const SoftwareEnvironment& software) {
  return software.kind == SoftwareKind::image && software.runtime == ImageRuntime::apptainer;
}

bool shows_gpus(const host::LaunchSpec& launch) {
  const auto set = launch.env.find("CUDA_VISIBLE_DEVICES");
  return launch.gpus && (set == launch.env.end() || !set->second.empty());
}

// --- Commands ---

std::vector<std::string> script(std::vector<std::string> shell, std::string_view text,
                                std::vector<std::string> arguments) {
  const std::string name = shell.front();
  shell.push_back(std::string(kScriptFunctions) + std::string(text));
  shell.push_back(name);
  std::ranges::move(arguments, std::back_inserter(shell));
  return shell;
}

// A field of CSV, which the option takes.
std::string bind_mount(const std::string& folder) {
  std::string quoted;
  for (const char c : folder) quoted += c == '"' ? "\"\"" : std::string(1, c);
  const bool is_plain = folder.find_first_of(",\"") == std::string::npos;
  const auto field = [&](std::string_view name) {
    return is_plain ? format("{}={}", name, folder) : format("\"{}={}\"", name, quoted);
  };
  return format("--mount=type=bind,{},{}", field("source"), field("destination"));
}

std::vector<std::string> gpu_options(const host::LaunchSpec& launch) {
  std::vector<std::string> options;
  if (!shows_gpus(launch)) return options;
  for (const std::string& uuid : launch.device_uuids)
    options.push_back("--device=nvidia.com/gpu=" + uuid);
  if (launch.device_uuids.size() == launch.devices.size()) return options;
  options.clear();
  for (const int device : launch.devices)
    options.push_back(format("--device=nvidia.com/gpu={}", device));
  return options;
}

// The container only holds the files: its process reads a pipe of which the agent has the other
// end, and ends with the agent. It opens the pipe for both first, because a pipe that nothing
// writes to could not be opened.
std::vector<std::string> podman_command(const host::LaunchSpec& launch,
                                        const PreparationSetting& setting) {
  std::vector<std::string> words = {"podman",
                                    "run",
                                    "--detach",
                                    "--rm",
                                    "--pull=never",
                                    "--name=" + container_name(setting),
                                    "--label=lockstep.node=" + launch.node,
                                    "--log-driver=none",
                                    "--no-healthcheck",
                                    "--env=LOCKSTEP_HOLD=1",
                                    "--network=host",
                                    "--pid=host",
                                    "--security-opt=label=disable",
                                    format("--user={}:{}", setting.user, setting.group)};
  if (setting.user != 0) words.emplace_back("--userns=keep-id");
  words.push_back(bind_mount("/dev/shm"));
  for (const std::string& folder : folders_in_image(launch, setting))
    words.push_back(bind_mount(folder));
  std::ranges::move(gpu_options(launch), std::back_inserter(words));
  if (setting.has_infiniband) words.emplace_back("--device=/dev/infiniband");
  words.emplace_back("--entrypoint=/bin/sh");
  words.push_back(launch.software->name);
  words.emplace_back("-c");
  words.emplace_back(R"(exec 3<>"$0" 4<"$0" 3>&-; read -r _ <&4)");
  words.push_back(hold_file(setting));
  return words;
}

std::vector<std::string> apptainer_command(const host::LaunchSpec& launch,
                                           const PreparationSetting& setting) {
  std::vector<std::string> words = {"apptainer", "exec"};
  if (!launch.working_folder.empty()) words.push_back("--pwd=" + launch.working_folder);
  for (const std::string& folder : folders_in_image(launch, setting))
    words.push_back("--bind=" + folder);
  if (shows_gpus(launch)) words.emplace_back("--nv");
  words.push_back(launch.software->name);
  return words;
}

std::vector<std::string> podman_script(const host::LaunchSpec& launch,
                                       const PreparationSetting& setting) {
  std::vector<std::string> arguments = {container_name(setting), launch.software->name,
                                        launch.checkpoint_folder};
  std::ranges::move(podman_command(launch, setting), std::back_inserter(arguments));
  return script({"sh", "-c"}, kPodmanScript, std::move(arguments));
}

// --- Variables ---

// The host's own programs and libraries are not in the image.
bool is_of_host(std::string_view name) {
  return name == "PATH" || name == "HOME" || name == "SHELL" || name == "VIRTUAL_ENV" ||
         name == "LD_LIBRARY_PATH" || name.starts_with("CUDA_") || name.starts_with("NVIDIA_");
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

// The host's, if the image has it; that of the image for root; else one that every user may write.
std::string home_in_image(const Environment& user, const Environment& image,
                          const host::LaunchSpec& launch, const PreparationSetting& setting) {
  const auto own = user.find("HOME");
  const auto folders = folders_in_image(launch, setting);
  if (own != user.end() && std::ranges::any_of(folders, [&](const std::string& folder) {
        return is_below(own->second, folder);
      }))
    return own->second;
  const auto home = image.find("HOME");
  return setting.user == 0 && home != image.end() ? home->second : "/tmp";
}

Environment variables_in_image(const Environment& user, const Environment& image,
                               const host::LaunchSpec& launch, const PreparationSetting& setting) {
  Environment result = user;
  std::erase_if(result, [](const auto& variable) { return is_of_host(variable.first); });
  for (const auto& [name, value] : image)
    if (name != "TERM") result[name] = value;
  result["HOME"] = home_in_image(user, image, launch, setting);
  for (const auto& [name, value] : launch.env) result[name] = value;
  return result;
}

bool is_shell_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

// A shell drops variables whose names it cannot have.
void restore_other_names(const host::LaunchSpec& launch, Environment& variables) {
  for (const auto& [name, value] : launch.env)
    if (!is_shell_name(name)) variables[name] = value;
}

// {"env_vars": {NAME: VALUE}}, as `conda env config vars set` writes it.
void apply_conda_state(Environment& variables) {
  const auto found = variables.find(std::string(kCondaState));
  if (found == variables.end()) return;
  const auto state = parse_json(found->second);
  variables.erase(found);
  if (!state || !state->is_object() || !state->contains("env_vars")) return;
  for (const auto& [name, value] : (*state)["env_vars"].items())
    if (value.is_string() && value != "***unset***") variables[name] = value.get<std::string>();
}

// --- The output ---

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Environment variables_in(std::string_view text) {
  Environment variables;
  for (const std::string_view part : parts_of(text)) {
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    const auto name = part.substr(0, equals);
    if (std::ranges::find(kNotForRanks, name) == std::end(kNotForRanks))
      variables.emplace(name, part.substr(equals + 1));
  }
  return variables;
}

// The tool's output about a failure, as one line, without its warnings.
std::string detail_of(std::string_view output) {
  if (const auto mark = output.rfind(kOutputMark); mark != std::string_view::npos)
    output.remove_prefix(mark + kOutputMark.size());
  std::string detail;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    const std::string_view line = output.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line.find("level=warning") != std::string_view::npos) continue;
    detail += (detail.empty() ? "" : " ") + std::string(line);
  }
  return escape_controls(std::string_view(detail).substr(0, kDetailMax));
}

std::string with_detail(std::string_view reason, std::string_view output) {
  const std::string detail = detail_of(output);
  return detail.empty() ? std::string(reason) : format("{}: {}", reason, detail);
}

Result<pid_t> take_container(Environment& variables) {
  const auto found = variables.find(std::string(kContainer));
  pid_t pid = 0;
  if (found != variables.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), pid);
  if (pid <= 0) return Error{Code::internal, "the container of the image has no process"};
  variables.erase(found);
  return pid;
}

}  // namespace

std::string container_name(const PreparationSetting& setting) {
  return std::filesystem::path(setting.socket_folder).filename().string();
}

std::string hold_file(const PreparationSetting& setting) {
  return (std::filesystem::path(setting.socket_folder) / "hold").string();
}

std::vector<std::string> folders_in_image(const host::LaunchSpec& launch,
                                          const PreparationSetting& setting) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    if (!folder.empty() && folder != "/" && std::ranges::find(folders, folder) == folders.end())
      folders.push_back(folder);
  };
  add(launch.working_folder);
  add(launch.checkpoint_folder);
  add(launch.node_folder);
  add(setting.socket_folder);
  if (const auto set = launch.env.find(std::string(comm::kFlightFolderVariable));
      set != launch.env.end())
    add(set->second);
  for (const std::string& folder : launch.software->mounts) add(folder);
  return folders;
}

std::vector<std::string> preparation_command(const host::LaunchSpec& launch,
                                             const PreparationSetting& setting) {
  const SoftwareEnvironment& software = *launch.software;
  switch (software.kind) {
    case SoftwareKind::venv:
      return script({"sh", "-c"}, kVenvScript, {software.name});
    case SoftwareKind::conda:
      return script({"bash", "-c"}, kCondaScript, {software.name});
    case SoftwareKind::module:
      return script({"bash", "-lc"}, kModuleScript, software.modules);
    case SoftwareKind::image:
      break;
  }
  return uses_podman(software) ? podman_script(launch, setting)
                               : script({"sh", "-c"}, kApptainerScript, {software.name});
}

Environment preparation_variables(const host::LaunchSpec& launch, const Environment& own,
                                  const Environment& user) {
  if (uses_podman(*launch.software)) {
    Environment result = own;
    std::erase_if(result,
                  [](const auto& variable) { return variable.first.starts_with("LOCKSTEP_"); });
    return result;
  }
  Environment result = user;
  if (launch.software->kind == SoftwareKind::module)
    for (const auto& [name, value] : launch.env) result[std::string(kKeep) + name] = value;
  return result;
}

bool is_preparation_complete(std::string_view output) { return output.ends_with(kEndMark); }

Result<PreparedSoftware> prepared_software(std::string_view output, const host::LaunchSpec& launch,
                                           const PreparationSetting& setting,
                                           const Environment& user) {
  const auto begins = output.find(kEnvironmentMark);
  if (const auto mark = output.find(kMissingMark); mark < begins) {
    const auto reason = parts_of(output.substr(mark + kMissingMark.size()));
    return Error{Code::not_found,
                 with_detail(reason.empty() ? "" : reason.front(), output.substr(0, mark))};
  }
  if (begins == std::string_view::npos || !is_preparation_complete(output))
    return Error{Code::unavailable,
                 with_detail(format("{} could not be prepared", text(*launch.software)), output)};
  output.remove_prefix(begins + kEnvironmentMark.size());
  output.remove_suffix(kEndMark.size());
  PreparedSoftware prepared{.variables = variables_in(output)};
  apply_conda_state(prepared.variables);
  restore_other_names(launch, prepared.variables);
  if (uses_apptainer(*launch.software)) prepared.wrapper = apptainer_command(launch, setting);
  if (!uses_podman(*launch.software)) return prepared;
  prepared.container = TRY(take_container(prepared.variables));
  prepared.variables = variables_in_image(user, prepared.variables, launch, setting);
  return prepared;
}

}  // namespace lockstep::agent
