#include <memory>

#include "apps/command.h"
#include "apps/present.h"
#include "text/convert.h"

namespace lockstep {

// `lockstep show RUN`: what was asked for, how it stands, every attempt with its nodes and ranks.
void add_show(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("show", "Show a run: attempts, nodes, ranks, metrics, checkpoints");
  auto run = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("run", *run, "the run, such as demo/42")->required();
  command->add_flag("--json", *json, "print JSON");
  command->callback([&action, run, json] {
    action = [run, json]() -> Result<int> {
      Client client = TRY(connect());
      api::RunView view = TRY(client.run(TRY(run_argument(*run))));
      print(*json ? dump_json(to_json(view), Indent::two) : run_details(view));
      return kDone;
    };
  });
}

}  // namespace lockstep
