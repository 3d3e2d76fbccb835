#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/provenance/run_differences.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct DiffFlags {
  std::string first;
  std::string second;
  bool json = false;
};

std::string differences_text(const RunDifferences& all) {
  if (all.differences.empty())
    return format("{} and {} have the same specification, origin and results", all.first,
                  all.second);
  Table table({"FIELD", all.first, all.second});
  for (const RunDifference& one : all.differences)
    table.add({one.name, one.first.value_or("-"), one.second.value_or("-")});
  return fit_to_terminal(table);
}

Result<int> show_differences(const DiffFlags& flags) {
  const model::RunId first = TRY(run_argument(flags.first));
  const model::RunId second = TRY(run_argument(flags.second));
  client::Client client = TRY(connect_to_daemon());
  const RunDifferences all = differences_of(TRY(client.call(api::kRun, {.path = first})),
                                            TRY(client.call(api::kRun, {.path = second})));
  print(flags.json ? dump_json(to_json(all), Indent::two) : differences_text(all));
  return kDone;
}

}  // namespace

// `lockstep diff A B`: what two runs were asked for, and what became of them.
void add_diff(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "diff", "Compare two runs: specification, origin of the code, and results");
  auto flags = std::make_shared<DiffFlags>();
  command->add_option("first", flags->first, "project/number; 42 means default/42")
      ->required()
      ->type_name(kRunValue);
  command->add_option("second", flags->second, "the run to compare it with")
      ->required()
      ->type_name(kRunValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Values of env are hidden: *** and a digest, which is the same for the same value of a\n"
      "variable.\n\n"
      "Example:\n  lockstep diff demo/41 demo/42");
  command->callback([&action, flags] { action = [flags] { return show_differences(*flags); }; });
}

}  // namespace lockstep::cli
