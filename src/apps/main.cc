// lockstep: one program for users (run, ps, logs, ...), the daemon (serve) and the nodes (agent). A
// file a subcommand.
#include <csignal>
#include <cstdio>

#include "apps/command.h"
#include "text/nearest.h"

using namespace lockstep;

namespace {

// CLI11 would only say that a subcommand is required.
bool refuse_unknown(const CLI::App& app, const std::string& name) {
  std::vector<std::string> names;  // the hidden ones have no group
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return false;
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  if (name.starts_with('-')) return false;
  std::vector<std::string_view> known(names.begin(), names.end());
  std::string hint = did_you_mean(name, known);
  say(format("lockstep: there is no command '{}'{} `lockstep --help` lists them", name,
             hint.empty() ? "." : hint));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // `lockstep ps | head` ends by an error of write, not by death

  CLI::App app{"Trains deep-learning models on many nodes, and runs the cluster that does it."};
  app.name("lockstep");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return format("lockstep: {}; --help shows what can be given\n", error.what());
  });
  app.footer(
      "A first run:\n"
      "  lockstep run -- python train.py\n"
      "  lockstep serve --hosts 2x2 --detach      this machine as two hosts of two devices\n"
      "  lockstep run -n 2 -g 2 --timeout 30m -- python train.py\n\n"
      "Exit codes: 0 done; 1 the run failed; 2 wrong usage or input; 3 the daemon cannot be "
      "reached;\n"
      "124 the run timed out; 130 the run was cancelled.");

  Action action;
  app.group("Runs");
  add_run(app, action);
  add_ps(app, action);
  add_show(app, action);
  add_watch(app, action);
  add_logs(app, action);
  add_metrics(app, action);
  add_plot(app, action);
  add_stop(app, action);
  add_kill(app, action);
  add_map(app, action);
  add_serve(app, action);
  add_version(app, action);
  add_agent(app, action);

  if (argc == 1) {
    say(app.help());
    return kWrongUsage;
  }
  if (refuse_unknown(app, argv[1])) return kWrongUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  Result<int> code = action();
  if (code) return *code;
  std::fputs(format("lockstep: {}\n", code.error().message).c_str(), stderr);
  return exit_code_for(code.error());
}
