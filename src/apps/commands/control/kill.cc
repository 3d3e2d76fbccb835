#include <csignal>
#include <limits>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "base/os/processes.h"
#include "platform/host/node_files.h"

namespace lockstep::cli {
namespace {

struct RankProcess {
  std::string node;  // demo/42.2/0
  pid_t process = 0;
};

Result<RankProcess> find_rank(const api::RunView& run, int rank) {
  if (!run.attempts.empty()) {
    const api::AttemptView& attempt = run.attempts.back();
    for (const api::NodeView& node : attempt.nodes)
      for (const api::RankView& view : node.ranks)
        if (view.rank == rank && view.state == model::RankState::running)
          return RankProcess{format("{}.{}/{}", run.id, attempt.epoch, node.index),
                             static_cast<pid_t>(view.pid)};
  }
  return Error{Code::not_found,
               format("{0} has no running rank {1}; see `lockstep show {0}`", run.id, rank)};
}

// The rank may be on another machine, or may have ended so that another process has its id. The
// process environment shows this (the token is INSTALLATION:NODE).
Result<void> check_is_here(const RankProcess& target) {
  auto token = environment_variable_of(target.process, host::kNodeToken);
  if (token && token->ends_with(":" + target.node)) return {};
  return Error{Code::not_found, format("process {} of {} does not run on this machine (any more)",
                                       target.process, target.node)};
}

Result<int> signal_number(const std::string& name) {
  for (int number = 1; number < 32; ++number)
    if (name == ::sigabbrev_np(number) || name == format("{}", number)) return number;
  return Error{Code::invalid,
               format("'{}' is not a signal; write KILL, TERM, STOP, USR1 or a number", name)};
}

}  // namespace

// `lockstep kill RUN --rank R` sends a signal to one rank's process on this machine, to test a
// fault or to request a dump.
void add_kill(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("kill", "Send a signal to one rank on this machine");
  auto run = std::make_shared<std::string>();
  auto rank = std::make_shared<int>(0);
  auto signal = std::make_shared<std::string>("KILL");
  add_run_argument(*command, *run);
  command->add_option("--rank", *rank, "the rank, from 0")
      ->required()
      ->check(whole_number(0, std::numeric_limits<int>::max()));
  command->add_option("--signal", *signal, "a signal's name or number")
      ->type_name("KILL|TERM|STOP|CONT|USR1")
      ->capture_default_str();
  command->footer(
      "The run continues by itself after a rank was killed. A rank that is stopped hangs.\n\n"
      "Example:\n"
      "  lockstep kill demo/42 --rank 1");
  command->callback([&action, run, rank, signal] {
    action = [run, rank, signal]() -> Result<int> {
      int number = TRY(signal_number(*signal));
      const model::RunId id = TRY(run_argument(*run));
      client::Client client = TRY(connect_to_daemon());
      api::RunView view = TRY(client.call(api::kRun, {.path = id}));
      TRY(check_rank(view, *rank));
      RankProcess target = TRY(find_rank(view, *rank));
      TRY(check_is_here(target));
      if (::kill(target.process, number) != 0)
        return os_error(format("signalling rank {} (process {})", *rank, target.process), errno);
      print(format("sent SIG{} to rank {} of {} (process {})", ::sigabbrev_np(number), *rank,
                   view.id, target.process));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
