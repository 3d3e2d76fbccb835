#include "apps/run/spec.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "apps/cli/subcommand.h"
#include "apps/run/startable.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "platform/api/json.h"
#include "platform/core/model/stand_in.h"
#include "platform/job_files/horovodrun_command.h"
#include "platform/job_files/kubernetes_job.h"
#include "platform/job_files/sbatch_script.h"
#include "platform/job_files/torchrun_command.h"
#include "text/document.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// The other variables of the submitter's environment that a program needs. --env passes more.
constexpr std::array<std::string_view, 2> kInherited = {"PYTHONPATH", "TMPDIR"};
constexpr std::size_t kFileMax = 4 << 20;
constexpr std::string_view kExample =
    "it needs at least a line such as `command: [python, train.py]`";

Error invalid(std::string message) { return {Code::invalid, std::move(message)}; }

bool is_run_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

Result<fs::path> current_folder() {
  std::error_code failure;
  fs::path folder = fs::current_path(failure);
  if (!failure) return folder;
  return Error{Code::not_found, format("the current folder cannot be named ({}); change to another",
                                       failure.message())};
}

Result<std::string> read_run_file(const std::string& path) {
  std::error_code failure;
  auto status = fs::status(path, failure);
  if (!fs::exists(status))
    return Error{Code::not_found, format("there is no file {}; `lockstep help run` shows how one "
                                         "looks",
                                         path)};
  if (!fs::is_regular_file(status)) return invalid(path + " is not a file that describes a run");
  std::string words = TRY(read_file(path, kFileMax));
  if (words.find('\0') != std::string::npos)
    return invalid(path + " is not a text file; a run is described in YAML");
  return words;
}

Result<void> check_shape(const Document& document) {
  if (document.value.is_null())
    return invalid(format("{}: the file is empty; {}", document.name, kExample));
  if (!document.value.is_object())
    return invalid(format("{}:1: a run is described by named fields; {}", document.name, kExample));
  auto command = document.value.find("command");
  if (command == document.value.end())
    return invalid(format("{}: names no command; {}", document.name, kExample));
  if (command->is_string())
    return invalid(
        format("{}:{}: command: expected a list, one word each, got {}; write "
               "`command: [python, train.py]`",
               document.name, document.line_of("/command").value_or(1), dump_json(*command)));
  return {};
}

// The model's message begins with the name of the field; a user of a file also needs the line.
Error with_file_line(const Error& error, const Document& document) {
  std::string field = error.message.substr(0, error.message.find(':'));
  auto line = document.lines.find("/" + field);
  if (line == document.lines.end()) return Error{error.code, document.name + ": " + error.message};
  return Error{error.code, format("{}:{}: {}", document.name, line->second, error.message)};
}

// Relative folders in a file are relative to the file's folder.
void make_absolute(std::string& folder, const fs::path& base) {
  if (!folder.empty()) folder = (base / folder).lexically_normal().string();
}

// Folders and files of the environment; a conda environment and an image may also be names.
void make_software_absolute(model::RunSpec& spec, const fs::path& base) {
  if (spec.venv) make_absolute(*spec.venv, base);
  if (spec.conda && spec.conda->find('/') != std::string::npos) make_absolute(*spec.conda, base);
  const auto environment = model::software_environment(spec);
  if (spec.image && environment->runtime == model::ImageRuntime::apptainer)
    make_absolute(*spec.image, base);
  if (spec.mounts)
    for (std::string& folder : *spec.mounts) make_absolute(folder, base);
}

// Resolves links, too: two names of one folder are recognized nowhere else, since the daemon does
// not access file systems that may hang.
void resolve(std::string& folder, const fs::path& base) {
  make_absolute(folder, base);
  if (folder.empty()) return;
  std::error_code failed;
  const auto found = fs::weakly_canonical(folder, failed);
  if (!failed) folder = found.string();
}

// How a job file of another system, or the command line of torchrun or horovodrun, is read.
ReadSpec read_spec(const std::string& what, job_files::TakenRun run) {
  std::string reading =
      format("{} is read as this run file:\n{}", what, job_files::run_file_text(run.spec));
  for (const std::string& line : run.left_out) reading += format("left out: {}\n", line);
  reading.pop_back();
  return {std::move(run.spec), std::move(reading)};
}

Result<ReadSpec> spec_from_kubernetes(const std::string& content, const std::string& path) {
  return read_spec(path + ", a file for Kubernetes,",
                   TRY(job_files::run_of_kubernetes_file(content, path)));
}

// Nullopt: it is no script for Slurm.
Result<std::optional<ReadSpec>> spec_from_sbatch(const std::vector<std::string>& words) {
  std::error_code failure;
  if (!fs::is_regular_file(words[0], failure)) return std::optional<ReadSpec>();
  const auto content = read_file(words[0], kFileMax);
  if (!content || !job_files::is_sbatch_script(*content)) return std::optional<ReadSpec>();
  if (words.size() > 1)
    return invalid(
        format("{} is a script for Slurm, which is read without arguments, got '{}'; "
               "--as-is starts it as a program",
               words[0], words[1]));
  const Environment environment = own_environment();
  auto run = TRY(job_files::run_of_sbatch_script(*content, words[0],
                                                 {environment.begin(), environment.end()}));
  make_absolute(run.spec.working_folder, TRY(current_folder()));
  make_software_absolute(run.spec, TRY(current_folder()));
  return std::optional(read_spec(words[0] + ", a script for Slurm,", std::move(run)));
}

Result<ReadSpec> spec_from_torchrun(const std::vector<std::string>& words) {
  job_files::TakenRun run;
  TRY(job_files::apply_torchrun(job_files::as_words(words), std::nullopt, run));
  return read_spec("torchrun", std::move(run));
}

Result<ReadSpec> spec_from_horovodrun(const std::vector<std::string>& words) {
  job_files::TakenRun run;
  TRY(job_files::apply_horovodrun(job_files::as_words(words), run));
  return read_spec("horovodrun", std::move(run));
}

Result<ReadSpec> spec_from_file(const std::string& path) {
  const std::string content = TRY(read_run_file(path));
  if (job_files::is_kubernetes_file(content)) return spec_from_kubernetes(content, path);
  Document document = TRY(parse_yaml(content, path));
  TRY(check_shape(document));
  model::RunSpec spec = TRY(from_document<model::RunSpec>(document));
  fs::path folder = (TRY(current_folder()) / path).parent_path();
  make_absolute(spec.working_folder, folder);
  make_software_absolute(spec, folder);
  resolve(spec.checkpoint_folder, folder);
  if (auto checked = model::check(spec); !checked) return with_file_line(checked.error(), document);
  return ReadSpec{std::move(spec), {}};
}

ReadSpec spec_of_command(const std::vector<std::string>& words) {
  ReadSpec read;
  read.spec.command = words;
  return read;
}

Result<ReadSpec> spec_from_arguments(const RunFlags& flags) {
  const std::vector<std::string>& words = flags.arguments;
  if (words.empty())
    return invalid(
        "nothing to run; write `lockstep run -- PROGRAM ARGUMENTS` or `lockstep run run.yaml`");
  if (flags.as_is) return spec_of_command(words);
  if (!is_run_file(words[0])) {
    if (auto read = TRY(spec_from_sbatch(words))) return *std::move(read);
    if (job_files::is_torchrun(job_files::as_words(words))) return spec_from_torchrun(words);
    if (job_files::is_horovodrun(job_files::as_words(words))) return spec_from_horovodrun(words);
    return spec_of_command(words);
  }
  if (words.size() == 1) return spec_from_file(words[0]);
  return invalid(
      format("{} describes a run and takes no arguments, got '{}'; write them into its "
             "command",
             words[0], words[1]));
}

// The options over the spec's own values.
Result<void> apply_options(const SpecOptions& options, model::RunSpec& spec) {
  TRY(options.apply(spec));
  for (std::string& run : spec.after) run = text(TRY(run_argument(run)));
  make_software_absolute(spec, TRY(current_folder()));
  resolve(spec.checkpoint_folder, TRY(current_folder()));
  return {};
}

// --env K=V, or --env K for the submitter's own value.
Result<void> add_env_options(const std::vector<std::string>& settings, model::RunSpec& spec) {
  for (const std::string& setting : settings) {
    auto equals = setting.find('=');
    std::string name = setting.substr(0, equals);
    const char* own = std::getenv(name.c_str());
    if (name.empty() || (equals == std::string::npos && own == nullptr))
      return invalid(
          format("--env {}: write NAME=VALUE, or the NAME of a variable that is set", setting));
    spec.env[name] = equals == std::string::npos ? own : setting.substr(equals + 1);
  }
  return {};
}

// --secret VARIABLE=SECRET, or --secret SECRET for a variable of the same name.
Result<void> add_secret_options(const std::vector<std::string>& settings, model::RunSpec& spec) {
  for (const std::string& setting : settings) {
    const auto equals = setting.find('=');
    const std::string variable = setting.substr(0, equals);
    if (variable.empty())
      return invalid(
          format("--secret {}: write VARIABLE=SECRET, with the name of a secret that "
                 "`lockstep secret ls` lists",
                 setting));
    if (!spec.secrets) spec.secrets.emplace();
    (*spec.secrets)[variable] = equals == std::string::npos ? variable : setting.substr(equals + 1);
  }
  return {};
}

// An image has its own programs, libraries and folders.
bool fits_in_image(std::string_view name) {
  return name == "USER" || name == "LOGNAME" || name == "LANG" || name == "TZ" ||
         name.starts_with("LC_");
}

// The values of all flags over the spec's own, but not their command.
Result<void> apply_flags(const RunFlags& flags, model::RunSpec& spec) {
  TRY(apply_options(flags.spec, spec));
  TRY(add_env_options(flags.env, spec));
  TRY(add_secret_options(flags.secrets, spec));
  if (!flags.replace_backend.empty())
    spec.env[std::string(model::kReplaceBackend)] = flags.replace_backend;
  if (flags.wandb) spec.env[std::string(model::kWandb)] = "1";
  if (flags.horovod) spec.env[std::string(model::kHorovod)] = "1";
  return {};
}

// Without what only the submission of the other run was about.
model::RunSpec spec_to_fork(model::RunSpec spec) {
  spec.checkpoint_folder.clear();
  spec.after.clear();
  spec.not_before.reset();
  return spec;
}

bool has_environment(const model::RunSpec& spec) {
  return spec.venv || spec.conda || spec.module || spec.image;
}

// The options of an environment replace that of the other run, whichever kind it is of.
Result<void> apply_flags_to_fork(const RunFlags& flags, model::RunSpec& spec) {
  const model::RunSpec before = spec;
  spec.venv.reset();
  spec.conda.reset();
  spec.module.reset();
  spec.image.reset();
  spec.runtime.reset();
  spec.mounts.reset();
  TRY(apply_flags(flags, spec));
  if (!has_environment(spec)) {
    spec.venv = before.venv;
    spec.conda = before.conda;
    spec.module = before.module;
    spec.image = before.image;
    if (!spec.runtime) spec.runtime = before.runtime;
    if (!spec.mounts) spec.mounts = before.mounts;
  }
  if (spec.nodes != before.nodes || spec.devices != before.devices) spec.remainder = 0;
  // A secret takes the place of a variable that the other run had.
  if (!flags.secrets.empty() && spec.secrets)
    std::erase_if(spec.env, [&](const auto& variable) {
      return before.env.contains(variable.first) && spec.secrets->contains(variable.first);
    });
  return {};
}

bool is_inherited(const model::RunSpec& spec, const std::string& name) {
  if (spec.secrets && spec.secrets->contains(name)) return false;
  if (spec.image) return fits_in_image(name);
  return is_user_variable(name) || std::ranges::find(kInherited, name) != kInherited.end();
}

void add_inherited(model::RunSpec& spec) {
  for (const auto& [name, value] : own_environment())
    if (is_inherited(spec, name)) spec.env.emplace(name, value);
}

}  // namespace

Result<ReadSpec> spec_of(const RunFlags& flags, RunFiles files) {
  ReadSpec read = TRY(spec_from_arguments(flags));
  model::RunSpec& spec = read.spec;
  TRY(apply_flags(flags, spec));
  if (spec.working_folder.empty()) spec.working_folder = TRY(current_folder()).string();
  if (spec.name.empty()) spec.name = fs::path(spec.command[0]).stem().string();
  if (files == RunFiles::here) add_inherited(spec);
  TRY(model::check(spec));
  if (files == RunFiles::here) TRY(check_startable(spec));
  return read;
}

Result<model::RunSpec> forked_spec(const RunFlags& flags, const model::RunSpec& source) {
  model::RunSpec spec = spec_to_fork(source);
  if (!flags.arguments.empty()) spec.command = flags.arguments;
  TRY(apply_flags_to_fork(flags, spec));
  // The daemon fills in the values that are hidden here, and checks them.
  model::RunSpec shown = spec;
  std::erase_if(shown.env,
                [](const auto& variable) { return variable.second == api::kHiddenValue; });
  TRY(model::check(shown));
  return spec;
}

}  // namespace lockstep::cli
