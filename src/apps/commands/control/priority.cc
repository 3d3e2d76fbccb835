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

struct PriorityFlags {
  std::string run;
  int priority = 0;
  bool json = false;
};

Result<int> set_priority(const PriorityFlags& flags) {
  const model::RunId id = TRY(run_argument(flags.run));
  client::Client client = TRY(connect_to_daemon());
  const auto run = TRY(client.call(
      api::kPriority, {.path = id, .request = {.by = user_name(), .priority = flags.priority}}));
  print(flags.json ? dump_json(to_json(run), Indent::two)
                   : format("{} has priority {}", run.id, run.priority));
  return kDone;
}

}  // namespace

// `lockstep priority RUN N`: moves the run up or down among the runs of its project.
void add_priority(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("priority", "Bring a run forward among those of its project, or back");
  auto flags = std::make_shared<PriorityFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("priority", flags->priority, "from -100 to 100; 0 unless set")
      ->required()
      ->type_name("N")
      ->check(whole_number(-model::kPriorityMax, model::kPriorityMax));
  command->add_flag("--json", flags->json, "print JSON");
  command->footer("Example:\n  lockstep priority demo/42 10");
  command->callback([&action, flags] { action = [flags] { return set_priority(*flags); }; });
}

}  // namespace lockstep::cli
