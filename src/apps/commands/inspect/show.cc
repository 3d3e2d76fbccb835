#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/provenance/repeat_text.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"

namespace lockstep::cli {

// `lockstep show RUN`: the spec, the state, and every attempt with its nodes and ranks.
void add_show(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("show", "Show a run: attempts, nodes, ranks, metrics, checkpoints");
  auto run = std::make_shared<std::string>();
  auto repro = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  add_run_argument(*command, *run);
  command->add_flag("--repro", *repro, "print the commands that repeat it");
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep show demo/42");
  command->callback([&action, run, repro, json] {
    action = [run, repro, json]() -> Result<int> {
      const model::RunId id = TRY(run_argument(*run));
      client::Client client = TRY(connect_to_daemon());
      api::RunView view = TRY(client.call(api::kRun, {.path = id}));
      if (*repro) {
        const auto kept = client.call(api::kArtifacts, {.path = id, .query = {.path = "lockstep"}});
        if (!kept && kept.error().code != Code::not_found) return kept.error();
        print(repeat_text(view, kept ? *kept : api::ArtifactList()));
        return kDone;
      }
      print(*json ? dump_json(to_json(view), Indent::two) : run_details(view));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
