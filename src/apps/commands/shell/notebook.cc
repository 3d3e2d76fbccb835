#include <memory>
#include <optional>
#include <string>

#include <poll.h>

#include "apps/access/node_argument.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "apps/run/run_display.h"
#include "apps/run/spec.h"
#include "apps/run/submit.h"
#include "apps/shell/held_run.h"
#include "apps/shell/notebook_server.h"
#include "apps/shell/shell_target.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr int kServerCheckMilliseconds = 200;
// The options of a run that it submits.
constexpr std::string_view kRunOptions[] = {"project", "devices", "timeout",
                                            "venv",    "conda",   "module"};

struct NotebookFlags {
  std::string run;  // empty: one of its own
  RunFlags spec;
  int port = 0;
};

// Until Ctrl-C, or the end of the server.
Result<int> serve(const SshAccess& access, int port) {
  auto server = TRY(NotebookServer::start(access, port));
  print(server->url());
  print_to_stderr("lockstep: open this address in a browser; Ctrl-C ends the notebook");
  while (!InterruptHandler::requested() && server->is_running())
    ::poll(nullptr, 0, kServerCheckMilliseconds);
  if (InterruptHandler::requested()) return kDone;
  return Error{Code::unavailable, "the notebook has ended: its run has, or the connection is lost"};
}

Result<int> serve_in_run(const NotebookFlags& flags) {
  model::RunSpec given;
  TRY(flags.spec.spec.apply(given));
  if (given != model::RunSpec())
    return Error{
        Code::invalid,
        format("{} runs already: options of a run are for one that is submitted", flags.run)};
  const ShellTarget target = TRY(shell_target(flags.run));
  client::Client client = TRY(connect_to_daemon());
  InterruptHandler interrupt("\nlockstep: interrupted", kCancelled);
  return serve(TRY(prepare_ssh(client, target)), flags.port);
}

Result<int> serve_in_own_run(NotebookFlags flags) {
  flags.spec.arguments = hold_command(kIdleDefault);
  flags.spec.as_is = true;
  const bool is_remote = TRY(is_daemon_remote());
  auto [spec, reading] = TRY(spec_of(flags.spec, is_remote ? RunFiles::elsewhere : RunFiles::here));
  TRY(make_held_run(spec, "notebook"));
  client::Client client = TRY(connect_to_daemon());
  InterruptHandler interrupt(format("\nlockstep: {}", kInterrupted), kCancelled);
  const api::RunView run = TRY(submit(client, spec, ""));
  const model::RunId id = TRY(model::parse_run_id(run.id));
  print_to_stderr(format("submitted {} on {}; Ctrl-C ends it", run.id, size_text(spec)));
  interrupt.set_message(format("\nlockstep: {0} goes on: `lockstep stop {0}` ends it", run.id),
                        kCancelled);
  const auto access = await_shell(client, id);
  const Result<int> served = access ? serve(*access, flags.port) : Result<int>(access.error());
  TRY(stop_held_run(client, id));
  return served;
}

}  // namespace

// `lockstep notebook [RUN]`.
void add_notebook(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("notebook", "Start JupyterLab on a node, for a browser here");
  auto flags = std::make_shared<NotebookFlags>();
  add_node_argument(*command, flags->run)->required(false);
  command->add_option("--port", flags->port, "port of this machine; without it a free one")
      ->check(whole_number(1, 65'535))
      ->type_name("PORT");
  flags->spec.spec.add_to(*command, kRunOptions);
  command->footer(
      "Without a run it submits one, of class debug, which ends with it. JupyterLab is that of "
      "the\n"
      "run's environment: `pip install jupyterlab` there.\n\n"
      "Examples:\n"
      "  lockstep notebook -g 1 --venv ~/venvs/train\n"
      "  lockstep notebook demo/42");
  command->callback([&action, flags] {
    action = [flags] {
      return flags->run.empty() ? serve_in_own_run(*flags) : serve_in_run(*flags);
    };
  });
}

}  // namespace lockstep::cli
