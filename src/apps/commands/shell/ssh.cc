#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "apps/access/node_argument.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/shell/shell_target.h"
#include "apps/shell/ssh_access.h"
#include "apps/shell/ssh_config.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

struct SshFlags {
  std::string run;
  std::vector<std::string> command;
  std::string prepared;
  bool config = false;
  bool write = false;
};

Result<int> open_shell(const SshFlags& flags) {
  if (flags.run.empty())
    return Error{Code::invalid, "name the run, such as `lockstep ssh demo/42`, or give --config"};
  const ShellTarget target = TRY(shell_target(flags.run));
  const SshAccess access = TRY(prepare_ssh(target));
  std::vector<std::string> arguments;
  if (!flags.command.empty() && is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO))
    arguments.emplace_back("-t");
  arguments.push_back(access.alias);
  if (!flags.command.empty()) arguments.push_back(shell_quoted(flags.command));
  return execute(ssh_command("ssh", access, arguments));
}

// For ssh, which shows only what is on standard error.
Result<int> prepare(const std::string& alias) {
  TRY(prepare_ssh_alias(alias));
  return kDone;
}

Result<int> show_config(bool write) {
  if (!write) {
    std::string lines = TRY(ssh_config_lines());
    lines.pop_back();
    print(lines);
    print_to_stderr(
        "lockstep: `lockstep ssh --config --write` writes these lines to ~/.ssh/config");
    return kDone;
  }
  print(TRY(add_ssh_config_lines())
            ? "~/.ssh/config has the lines now: `ssh 42.lockstep` is node 0 of default/42"
            : "~/.ssh/config has the lines already");
  return kDone;
}

Result<int> act(const SshFlags& flags) {
  if (flags.write && !flags.config) return Error{Code::invalid, "--write: give --config with it"};
  if (!flags.prepared.empty()) return prepare(flags.prepared);
  if (flags.config) return show_config(flags.write);
  return open_shell(flags);
}

}  // namespace

// `lockstep ssh RUN[/NODE] [-- COMMAND]`, `lockstep ssh --config`.
void add_ssh(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ssh", "Open a shell on a node of a running run");
  auto flags = std::make_shared<SshFlags>();
  add_node_argument(*command, flags->run)->required(false);
  command->add_option("command", flags->command, "after --: a command instead of a shell")
      ->type_name(kProgramValue);
  command->add_flag("--config", flags->config,
                    "print lines for ~/.ssh/config, so that `ssh 42.lockstep` works");
  command->add_flag("--write", flags->write, "with --config: write them there");
  command->add_option("--prepare", flags->prepared, "the name of a host: renew its files")
      ->type_name("NAME")
      ->group("");
  command->footer(
      "The shell runs as the user of the ranks, in their folder and with their environment.\n\n"
      "Examples:\n"
      "  lockstep ssh demo/42\n"
      "  lockstep ssh demo/42/1 -- nvidia-smi\n"
      "  lockstep ssh --config --write");
  command->callback([&action, flags] { action = [flags] { return act(*flags); }; });
}

}  // namespace lockstep::cli
