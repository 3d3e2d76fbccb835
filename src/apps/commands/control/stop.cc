#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"

namespace lockstep::cli {
namespace {

constexpr auto kNoLongerWaiting = "no longer waiting; the runs are being stopped";

struct StopFlags {
  std::vector<std::string> runs;
  std::string reason;
  bool wait = false;
};

// Reports each run once it has ended, in the order of the arguments.
Result<int> await_all(client::Client& client, const std::vector<model::RunId>& runs) {
  InterruptHandler interrupt(format("\nlockstep: {}", kNoLongerWaiting), kCancelled);
  for (const model::RunId& id : runs) {
    auto end = TRY(wait_for_end(client, id));
    if (!end) return Error{Code::cancelled, kNoLongerWaiting};
    print(state_line(*end));
  }
  return kDone;
}

Result<int> stop(const StopFlags& flags) {
  const std::vector<model::RunId> runs = TRY(run_arguments(flags.runs));
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& id : runs) {
    api::RunView run =
        TRY(client.call(api::kStop, {.path = id, .request = {.reason = flags.reason}}));
    if (!flags.wait) print(run.ended ? state_line(run) : run.id + " stopping");
  }
  return flags.wait ? await_all(client, runs) : kDone;
}

}  // namespace

// `lockstep stop RUN... [--wait]`: signal, grace period, kill; returns at once without --wait.
void add_stop(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("stop", "Stop runs: SIGTERM, then SIGKILL after a grace period");
  auto flags = std::make_shared<StopFlags>();
  add_run_arguments(*command, flags->runs);
  command->add_option("--reason", flags->reason, "why; shown with the run")->type_name("TEXT");
  command->add_flag("-w,--wait", flags->wait, "return when they have ended");
  command->footer("Example:\n  lockstep stop demo/42 --wait --reason \"wrong learning rate\"");
  command->callback([&action, flags] { action = [flags] { return stop(*flags); }; });
}

}  // namespace lockstep::cli
