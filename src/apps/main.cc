// lockstep: one program for users (run, ps, logs, ...), the daemon (serve) and the nodes (agent).
// Each subcommand has its own file, commands/GROUP/NAME.cc.
#include <csignal>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "apps/cli/exit_codes.h"
#include "apps/cli/help_text.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/cli/usage.h"
#include "text/nearest.h"

using namespace lockstep;
using namespace lockstep::cli;

namespace {

constexpr std::string_view kProfileOption = "--profile";

using Add = void (*)(CLI::App&, Action&);

void add_group(CLI::App& app, Action& action, const char* title, std::initializer_list<Add> adds) {
  app.group(title);  // inherited by the commands that are added next
  for (Add add : adds) add(app, action);
}

// CLI11's message would only say that a subcommand is required.
bool refuse_unknown(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return false;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  if (name.starts_with('-')) return false;
  std::vector<std::string_view> known(names.begin(), names.end());
  std::string hint = did_you_mean(name, known);
  print_to_stderr(format("lockstep: there is no command '{}'{} `lockstep help` lists them", name,
                         hint.empty() ? ";" : hint));
  return true;
}

// The first word that is neither --profile nor its value; empty: there is none.
std::string command_name(std::span<char* const> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == kProfileOption)
      ++i;
    else if (!word.starts_with(std::string(kProfileOption) + "="))
      return std::string(word);
  }
  return "";
}

// The rest of the program finds it in the environment, as if the user had set it there.
void choose_profile(const std::string& name) {
  if (!name.empty()) ::setenv("LOCKSTEP_PROFILE", name.c_str(), 1);
}

int act(const Action& action) {
  Result<int> code = action();
  if (code) return *code;
  print_to_stderr(format("lockstep: {}", code.error().message));
  return exit_code_for(code.error());
}

void add_commands(CLI::App& app, Action& action) {
  add_group(app, action, "Runs",
            {add_run, add_fork, add_resume, add_stop, add_kill, add_hold, add_release, add_priority,
             add_extend, add_tag, add_note, add_rm, add_import});
  add_group(app, action, "Inspecting runs",
            {add_ps,      add_top,         add_queue,   add_why,        add_show, add_diff,
             add_compare, add_watch,       add_logs,    add_metrics,    add_plot, add_findings,
             add_usage,   add_flight,      add_profile, add_checkpoint, add_open, add_artifacts,
             add_model,   add_tensorboard, add_report,  add_view});
  add_group(app, action, "Reaching nodes", {add_ssh, add_exec, add_cp, add_forward, add_notebook});
  add_group(app, action, "The daemon",
            {add_serve, add_login, add_logout, add_host, add_orphan, add_limits, add_version});
  add_group(app, action, "Users and projects",
            {add_user, add_project, add_token, add_passwd, add_secret, add_whoami, add_audit,
             add_budget, add_notice});
  add_group(app, action, "Kubernetes", {add_k8s});
  add_group(app, action, "Trying a policy", {add_sim});
  add_group(app, action, "The machine", {add_map, add_probe, add_tune});
  add_group(app, action, "This program", {add_help, add_completion});
  add_agent(app, action);
  add_shell_session(app, action);
  add_hold_devices(app, action);
  add_stream(app, action);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // `lockstep ps | head` ends with a write error, not by a signal

  CLI::App app{"Lockstep trains deep-learning models on many nodes, and runs the cluster for it."};
  app.name("lockstep");
  app.formatter(std::make_shared<HelpText>());
  app.require_subcommand(1);
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION, "print the version");

  std::string profile;
  app.add_option(std::string(kProfileOption), profile,
                 "the daemon to which `lockstep login` has logged in by this name")
      ->type_name("NAME");

  Action action;
  add_commands(app, action);

  if (argc == 1) {
    print(overview(app));
    return kDone;
  }
  const std::span<char* const> words(argv + 1, argv + argc);
  if (const auto name = command_name(words); !name.empty() && refuse_unknown(app, name))
    return kWrongUsage;
  // An agent's arguments come from Lockstep, and its folder may have any name.
  if (auto checked = check_utf8_arguments(words);
      !checked && words[0] != std::string_view("agent")) {
    print_to_stderr(format("lockstep: {}", checked.error().message));
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help);
  } catch (const CLI::ParseError& error) {
    print_to_stderr(usage_error(app, error, words));
    return kWrongUsage;
  }
  choose_profile(profile);
  return act(action);
}
