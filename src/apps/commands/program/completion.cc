#include <memory>

#include <unistd.h>

#include "apps/cli/completion_scripts.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "base/os/environment.h"
#include "platform/client/chosen_daemon.h"

namespace lockstep::cli {
namespace {

constexpr int kRunsMax = 200;
constexpr unsigned kTimeoutSeconds = 2;  // a shell waits for it between two keys

Result<int> print_script(const CLI::App& app, const std::string& shell) {
  const auto commands = cli_tree(app);
  if (shell == "bash")
    print(bash_completion(commands));
  else if (shell == "zsh")
    print(zsh_completion(commands));
  else if (shell == "fish")
    print(fish_completion(commands));
  else
    return Error{Code::invalid, format("'{}' is no shell that can be served; name bash, zsh or "
                                       "fish",
                                       shell)};
  return kDone;
}

bool is_number(const std::string& words) {
  return !words.empty() && words.find_first_not_of("0123456789") == std::string::npos;
}

// Never starts a daemon, prints no errors and stops after the timeout.
Result<int> print_runs(const std::string& beginning) {
  ::alarm(kTimeoutSeconds);
  auto client = client::open_chosen(own_environment());
  if (!client) return kDone;
  auto list = client->call(api::kRuns, {.query = {.project = {}, .state = {}, .limit = kRunsMax}});
  if (!list) return kDone;
  for (const api::RunView& run : list->runs) {
    constexpr std::string_view kDefault = "default/";
    const bool short_form = is_number(beginning) && run.id.starts_with(kDefault);
    print_buffered(short_form ? run.id.substr(kDefault.size()) : run.id);
  }
  flush();
  return kDone;
}

Result<int> print_hosts() {
  ::alarm(kTimeoutSeconds);
  auto client = client::open_chosen(own_environment());
  if (!client) return kDone;
  auto list = client->call(api::kHosts);
  if (!list) return kDone;
  for (const api::HostView& host : list->hosts) print_buffered(host.id);
  flush();
  return kDone;
}

void add_complete_runs(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(kCompleteRuns, "Print runs for a shell's completion");
  command->group("");
  auto beginning = std::make_shared<std::string>();
  command->add_option("beginning", *beginning, "what was typed so far");
  command->callback(
      [&action, beginning] { action = [beginning] { return print_runs(*beginning); }; });
}

void add_complete_hosts(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(kCompleteHosts, "Print hosts for a shell's completion");
  command->group("");
  command->callback([&action] { action = [] { return print_hosts(); }; });
}

}  // namespace

// `lockstep completion bash|zsh|fish`: a script for the shell to read.
void add_completion(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("completion", "Print a script that completes words in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "the shell that is to read it")
      ->required()
      ->type_name("bash|zsh|fish");
  command->footer(
      "Completes commands, options, runs, hosts, programs and files.\n\n"
      "Examples:\n"
      "  lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep\n"
      "  source <(lockstep completion zsh)\n"
      "  lockstep completion fish > ~/.config/fish/completions/lockstep.fish");
  command->callback(
      [&app, &action, shell] { action = [&app, shell] { return print_script(app, *shell); }; });
  add_complete_runs(app, action);
  add_complete_hosts(app, action);
}

}  // namespace lockstep::cli
