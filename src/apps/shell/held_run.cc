#include "apps/shell/held_run.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

#include "apps/cli/terminal.h"
#include "apps/run/follow.h"
#include "apps/run/run_display.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr Duration kStateWait = std::chrono::seconds(10);

Result<api::RunView> await_running(client::Client& client, const model::RunId& id) {
  WaitingLine waiting(NonTerminalOutput::once);
  std::int64_t version = -1;
  while (!InterruptHandler::requested()) {
    const api::RunView run = TRY(retry_while_away(client, [&] {
      return client.call(api::kRun, {.path = id,
                                     .query = {.after_version = version,
                                               .wait_seconds = in_seconds(kStateWait),
                                               .brief = true}});
    }));
    if (run.ended) return Error{Code::invalid, state_line(run)};
    if (run.state == model::RunState::running) return run;
    version = run.version;
    waiting.show(state_line(run));
  }
  return Error{Code::cancelled, "interrupted"};
}

}  // namespace

std::vector<std::string> hold_command(const std::string& idle) {
  return {"lockstep", "hold-devices", "--idle", idle};
}

Result<SshAccess> await_shell(client::Client& client, const model::RunId& run) {
  TRY(await_running(client, run));
  return prepare_ssh(client, {.run = run});
}

// An image has no lockstep, and ranks in it do not see the agent.
Result<void> make_held_run(model::RunSpec& spec, const std::string& name) {
  if (spec.image)
    return Error{Code::invalid,
                 "image: a run without a command takes none; start one with a "
                 "command, and open a shell by `lockstep ssh`"};
  if (spec.run_class == model::RunClass::normal) spec.run_class = model::RunClass::debug;
  if (spec.name == hold_command("").front()) spec.name = name;  // none was given
  return model::check(spec);
}

// Ctrl-C is for the program, which has the terminal.
Result<int> run_in_terminal(const std::vector<std::string>& command) {
  struct sigaction ignored{}, before{};
  ignored.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignored, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::signal(SIGINT, SIG_DFL);
    print_to_stderr(format("lockstep: {}", execute(command).message));
    ::_exit(255);
  }
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  ::sigaction(SIGINT, &before, nullptr);
  if (pid < 0) return os_error("starting " + command.front(), errno);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<void> stop_held_run(client::Client& client, const model::RunId& run) {
  TRY(retry_while_away(client, [&] {
    return client.call(api::kStop, {.path = run, .request = {.reason = "its shell has ended"}});
  }));
  return {};
}

}  // namespace lockstep::cli
