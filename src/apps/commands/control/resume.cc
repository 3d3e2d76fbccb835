#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"

namespace lockstep::cli {
namespace {

struct ResumeFlags {
  std::vector<std::string> runs;
  bool follow = false;
};

// The last line of the earlier attempts: these were shown before, or `lockstep logs` shows them.
Result<std::int64_t> last_line(client::Client& client, const model::RunId& id) {
  return TRY(client.call(api::kLogs, {.path = id, .query = {.after = 0, .rank = {}, .tail = 1}}))
      .next;
}

Result<int> resume_and_follow(const model::RunId& id) {
  client::Client client = TRY(connect_to_daemon());
  const std::int64_t after = TRY(last_line(client, id));
  InterruptHandler interrupt(
      format("\nlockstep: interrupted; `lockstep show {}` tells how it stands", text(id)),
      kCancelled);
  const api::RunView run = TRY(client.call(api::kResume, {.path = id}));
  const auto detached = "\ndetached: " + reattach_hint(run.id);
  interrupt.set_message(detached);
  auto end = TRY(follow(client, id, {.rank = {}, .after = after}));
  if (end) return exit_code_for(*end);
  print_to_stderr(detached);
  return kDone;
}

Result<int> resume(const ResumeFlags& flags) {
  const std::vector<model::RunId> runs = TRY(run_arguments(flags.runs));
  if (flags.follow && runs.size() > 1)
    return Error{Code::invalid, "--follow follows one run; leave it out, or name one run"};
  if (flags.follow) return resume_and_follow(runs.front());
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& id : runs)
    print(state_line(TRY(client.call(api::kResume, {.path = id}))));
  return kDone;
}

}  // namespace

// `lockstep resume RUN... [--follow]`: continues runs that failed, timed out or were stopped.
void add_resume(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("resume", "Let runs that ended early go on from their last checkpoint");
  auto flags = std::make_shared<ResumeFlags>();
  add_run_arguments(*command, flags->runs);
  command->add_flag("-f,--follow", flags->follow, "stay until the run ends; Ctrl-C leaves");
  command->footer(
      "For a run that failed, timed out or was stopped: it is queued again as a new attempt, with\n"
      "its whole time-out and all its retries.\n\n"
      "Example:\n"
      "  lockstep resume demo/42 --follow");
  command->callback([&action, flags] { action = [flags] { return resume(*flags); }; });
}

}  // namespace lockstep::cli
