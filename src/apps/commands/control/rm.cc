#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "base/format.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct RmFlags {
  std::vector<std::string> runs;
  bool yes = false;
  bool json = false;
};

std::string removed_text(const api::RemovedRun& removed) {
  if (removed.checkpoint_folder.empty()) return removed.run + " removed";
  return format("{} removed; its checkpoints stay in {}", removed.run, removed.checkpoint_folder);
}

Result<int> rm(const RmFlags& flags) {
  const std::vector<model::RunId> runs = TRY(run_arguments(flags.runs));
  if (!flags.yes)
    return Error{Code::invalid,
                 format("rm: {} would lose {} lines, metrics, checkpoints and folder for good; add "
                        "--yes if that is meant",
                        joined(flags.runs, " "), runs.size() == 1 ? "its" : "their")};
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& id : runs) {
    const auto removed = TRY(client.call(api::kRemove, {.path = id}));
    print(flags.json ? dump_json(to_json(removed), Indent::two) : removed_text(removed));
  }
  return kDone;
}

}  // namespace

// `lockstep rm RUN... --yes`: ended runs, with everything that is kept of them.
void add_rm(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("rm", "Remove ended runs for good");
  auto flags = std::make_shared<RmFlags>();
  add_run_arguments(*command, flags->runs);
  command->add_flag("--yes", flags->yes, "they lose their lines, metrics, checkpoints and folder");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Checkpoints in a folder that --checkpoint-folder named stay.\n"
      "The number of a removed run is not given again.\n\n"
      "Example:\n  lockstep rm demo/42 --yes");
  command->callback([&action, flags] { action = [flags] { return rm(*flags); }; });
}

}  // namespace lockstep::cli
