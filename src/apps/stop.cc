#include <memory>

#include "apps/exit_codes.h"
#include "apps/follow.h"
#include "apps/own_daemon.h"
#include "apps/subcommand.h"
#include "apps/terminal.h"

namespace lockstep {
namespace {

constexpr auto kNoLongerWaiting = "no longer waiting; the runs are being stopped";

struct StopFlags {
  std::vector<std::string> runs;
  std::string reason;
  bool wait = false;
};

// Each that has ended, in the order in which they were named.
Result<int> await_all(Client& client, const std::vector<RunId>& runs) {
  Interrupt interrupt(format("\nlockstep: {}", kNoLongerWaiting), kCancelled);
  for (const RunId& id : runs) {
    auto end = TRY(await_end(client, id));
    if (!end) return Error{Code::cancelled, kNoLongerWaiting};
    print(state_line(*end));
  }
  return kDone;
}

Result<int> stop(const StopFlags& flags) {
  const std::vector<RunId> runs = TRY(run_arguments(flags.runs));
  Client client = TRY(connect());
  for (const RunId& id : runs) {
    api::RunView run = TRY(client.stop(id, {.reason = flags.reason}));
    if (!flags.wait) print(run.ended ? state_line(run) : run.id + " stopping");
  }
  return flags.wait ? await_all(client, runs) : kDone;
}

}  // namespace

// `lockstep stop RUN... [--wait]`: signal, grace period, kill; returns at once unless told to wait.
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

}  // namespace lockstep
