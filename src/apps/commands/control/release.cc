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

Result<int> release(const std::vector<std::string>& words, bool json) {
  const std::vector<model::RunId> runs = TRY(run_arguments(words));
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& id : runs) {
    const auto run = TRY(client.call(api::kRelease, {.path = id, .request = {.by = user_name()}}));
    print(json ? dump_json(to_json(run), Indent::two) : state_line(run));
  }
  return kDone;
}

}  // namespace

// `lockstep release RUN...`: a held run may start.
void add_release(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("release", "Let runs start that were held");
  auto runs = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>(false);
  add_run_arguments(*command, *runs);
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep release demo/42");
  command->callback(
      [&action, runs, json] { action = [runs, json] { return release(*runs, *json); }; });
}

}  // namespace lockstep::cli
