#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "apps/run/origin.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct HoldFlags {
  std::vector<std::string> runs;
  std::string reason;
  bool json = false;
};

Result<int> hold(const HoldFlags& flags) {
  const std::vector<model::RunId> runs = TRY(run_arguments(flags.runs));
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& id : runs) {
    const auto run = TRY(client.call(
        api::kHold, {.path = id, .request = {.by = user_name(), .reason = flags.reason}}));
    print(flags.json ? dump_json(to_json(run), Indent::two) : state_line(run));
  }
  return kDone;
}

}  // namespace

// `lockstep hold RUN...`: a waiting run does not start until it is released.
void add_hold(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("hold", "Keep runs that wait from starting");
  auto flags = std::make_shared<HoldFlags>();
  add_run_arguments(*command, flags->runs);
  command->add_option("--reason", flags->reason, "why; shown with the run")->type_name("TEXT");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "They keep their place in the queue, and no run waits for them; `lockstep release` lets them "
      "start.\n\n"
      "Example:\n  lockstep hold demo/42 --reason \"the data set is being replaced\"");
  command->callback([&action, flags] { action = [flags] { return hold(*flags); }; });
}

}  // namespace lockstep::cli
