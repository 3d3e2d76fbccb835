#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/cli/time_option.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct ExtendFlags {
  std::string run, extension;
  bool json = false;
};

Result<int> extend_run(const ExtendFlags& flags) {
  const model::RunId id = TRY(run_argument(flags.run));
  const Duration extension = TRY(duration_option("DURATION", flags.extension));
  client::Client client = TRY(connect_to_daemon());
  const auto run =
      TRY(client.call(api::kExtend, {.path = id, .request = {.extension = extension}}));
  print(flags.json ? dump_json(to_json(run), Indent::two)
                   : format("{} may run for {}", run.id, text(run.time_limit.value_or(extension))));
  return kDone;
}

}  // namespace

// `lockstep extend RUN DURATION`: more running time, also while it runs.
void add_extend(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("extend", "Give a run a longer time limit, also while it runs");
  auto flags = std::make_shared<ExtendFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("duration", flags->extension, "how much longer it may run, such as 2h")
      ->required()
      ->type_name("DURATION");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  lockstep extend demo/42 2h");
  command->callback([&action, flags] { action = [flags] { return extend_run(*flags); }; });
}

}  // namespace lockstep::cli
