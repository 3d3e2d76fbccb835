#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <pwd.h>
#include <unistd.h>

#include "apps/command.h"
#include "apps/follow.h"
#include "apps/present.h"
#include "base/fd.h"
#include "text/convert.h"
#include "text/document.h"

extern char** environ;

namespace lockstep {
namespace {

struct RunFlags {
  std::vector<std::string> words;  // the command, or one file
  std::optional<std::string> project, name, timeout, checkpoint_folder;
  std::optional<int> nodes, devices, retries;
  std::vector<std::string> env;
  bool detach = false;
  bool json = false;
};

// Of the submitter's environment only what a program needs to find itself at home; the rest by
// --env.
constexpr std::array kInherited = {"PATH",  "HOME", "USER",        "LOGNAME",    "SHELL",
                                   "LANG",  "TZ",   "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH",
                                   "TMPDIR"};

bool is_file(const std::vector<std::string>& words) {
  return words.size() == 1 && (words[0].ends_with(".yaml") || words[0].ends_with(".yml"));
}

Result<RunSpec> spec_from_file(const std::string& path) {
  Document document = TRY(parse_yaml(TRY(read_file(path)), path));
  return from_document<RunSpec>(document);
}

// --env K=V, or --env K for the submitter's own value.
Result<void> add_environment(const std::vector<std::string>& settings, RunSpec& spec) {
  for (const std::string& setting : settings) {
    auto equals = setting.find('=');
    std::string name = setting.substr(0, equals);
    const char* own = std::getenv(name.c_str());
    if (name.empty() || (equals == std::string::npos && own == nullptr))
      return Error{
          Code::invalid,
          format("--env {}: write NAME=VALUE, or the NAME of a variable that is set", setting)};
    spec.env[name] = equals == std::string::npos ? own : setting.substr(equals + 1);
  }
  for (const char* name : kInherited)
    if (const char* value = std::getenv(name); value != nullptr) spec.env.emplace(name, value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view variable = *entry;
    if (variable.starts_with("LC_"))
      spec.env.emplace(variable.substr(0, variable.find('=')),
                       variable.substr(variable.find('=') + 1));
  }
  return {};
}

Result<std::filesystem::path> current_folder() {
  std::error_code failure;
  auto folder = std::filesystem::current_path(failure);
  if (!failure) return folder;
  return Error{Code::not_found, format("the current folder cannot be named ({}); change to another",
                                       failure.message())};
}

Result<RunSpec> spec_of(const RunFlags& flags) {
  RunSpec spec;
  if (is_file(flags.words))
    spec = TRY(spec_from_file(flags.words[0]));
  else
    spec.command = flags.words;
  if (spec.command.empty())
    return Error{
        Code::invalid,
        "nothing to run; write `lockstep run -- PROGRAM ARGUMENTS` or `lockstep run run.yaml`"};
  if (flags.project) spec.project = *flags.project;
  if (flags.name) spec.name = *flags.name;
  if (flags.nodes) spec.nodes = *flags.nodes;
  if (flags.devices) spec.devices = *flags.devices;
  if (flags.retries) spec.retries = *flags.retries;
  if (flags.timeout) spec.timeout = TRY(parse_duration(*flags.timeout));
  if (flags.checkpoint_folder)
    spec.checkpoint_folder = TRY(current_folder()) / *flags.checkpoint_folder;
  if (spec.working_folder.empty()) spec.working_folder = TRY(current_folder());
  if (spec.name.empty()) spec.name = std::filesystem::path(spec.command[0]).stem();
  TRY(add_environment(flags.env, spec));
  TRY(check(spec));
  return spec;
}

// The first line that a command prints; empty when it fails.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 256> buffer{};
  std::string line = std::fgets(buffer.data(), buffer.size(), pipe) == nullptr ? "" : buffer.data();
  ::pclose(pipe);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

Origin origin_here() {
  const passwd* user = ::getpwuid(::getuid());
  return {.user = user == nullptr ? format("{}", ::getuid()) : user->pw_name,
          .git_commit = output_of("git rev-parse HEAD"),
          .git_dirty = !output_of("git status --porcelain --untracked-files=no").empty()};
}

Result<int> submit_and_follow(const RunFlags& flags) {
  RunSpec spec = TRY(spec_of(flags));
  Client client = TRY(connect());
  api::RunView run = TRY(client.submit({.spec = spec, .origin = origin_here()}));
  if (flags.json) {
    print(dump_json(to_json(run), Indent::two));
    return kDone;
  }
  if (flags.detach) {
    print(run.id);
    say(how_to_come_back(run.id));
    return kDone;
  }
  say(format("submitted {} ({}) on {}; Ctrl-C detaches, the run goes on", run.id, run.name,
             size_text(spec)));
  auto end = TRY(follow(client, TRY(parse_run_id(run.id)), {}));
  if (end) return exit_code_for(*end);
  say("\ndetached: " + how_to_come_back(run.id));
  return kDone;
}

}  // namespace

// `lockstep run [options] -- PROGRAM ARGUMENTS` or `lockstep run run.yaml`.
void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "Run a program on one or more nodes and follow it");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("command", flags->words,
                      "after --: program and arguments; or a file, run.yaml");
  command->add_option("-n,--nodes", flags->nodes, "hosts to run on (default 1)");
  command->add_option("-g,--devices", flags->devices,
                      "devices on each node, one rank each (default 1)");
  command->add_option("--name", flags->name, "what to call it (default: the program's name)");
  command->add_option("--project", flags->project, "project it belongs to (default: default)");
  command->add_option("--timeout", flags->timeout,
                      "running time after which it is stopped (default 1h)");
  command->add_option(
      "--retries", flags->retries,
      "attempts after the program's own non-zero exit (default 0); lost ranks are free");
  command->add_option("--env", flags->env, "NAME=VALUE, or NAME for its value here; repeatable")
      ->allow_extra_args(false);
  command->add_option(
      "--checkpoint-folder", flags->checkpoint_folder,
      "folder for checkpoints, the same on every node (default: in the daemon's folder)");
  command->add_flag("-d,--detach", flags->detach, "print the run's id and return at once");
  command->add_flag("--json", flags->json, "print the submitted run as JSON and return at once");
  command->footer(
      "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and "
      "MASTER_PORT\n"
      "as torchrun sets them, and LOCKSTEP_CHECKPOINT_DIR. Example:\n"
      "  lockstep run -n 2 -g 2 --timeout 30m -- python train.py --epochs 3");
  command->callback([&action, flags] { action = [flags] { return submit_and_follow(*flags); }; });
}

}  // namespace lockstep
