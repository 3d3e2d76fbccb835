#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_form.h"
#include "apps/daemon/own_daemon.h"
#include "apps/provenance/run_differences.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kRunsMax = 20;

struct CompareFlags {
  std::vector<std::string> runs;
  bool csv = false;
  bool markdown = false;
  bool json = false;
};

std::string comparison_text(const RunComparison& all, TextForm form) {
  if (all.differences.empty() && form == TextForm::table)
    return "the runs have the same specification, origin and results";
  TextRow header{"FIELD"};
  header.insert(header.end(), all.runs.begin(), all.runs.end());
  std::vector<TextRow> rows;
  for (const ComparedField& each : all.differences) {
    TextRow row{each.name};
    for (const auto& value : each.values)
      row.push_back(value.value_or(form == TextForm::csv ? "" : "-"));
    rows.push_back(std::move(row));
  }
  return rows_text(header, rows, form);
}

Result<int> show_comparison(const CompareFlags& flags) {
  const auto ids = TRY(run_arguments(flags.runs));
  if (ids.size() < 2 || ids.size() > kRunsMax)
    return Error{Code::invalid, format("name 2 to {} runs, such as `lockstep compare demo/41 "
                                       "demo/42`",
                                       kRunsMax)};
  client::Client client = TRY(connect_to_daemon());
  std::vector<api::RunView> runs;
  for (const model::RunId& id : ids) runs.push_back(TRY(client.call(api::kRun, {.path = id})));
  const RunComparison all = compare_runs(runs);
  const auto form = flags.csv        ? TextForm::csv
                    : flags.markdown ? TextForm::markdown
                                     : TextForm::table;
  print(flags.json ? dump_json(to_json(all), Indent::two) : comparison_text(all, form));
  return kDone;
}

}  // namespace

// `lockstep compare RUN RUN...`: the settings and results in which runs differ, a column for each.
void add_compare(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "compare", "Compare up to 20 runs: the settings and results in which they differ");
  auto flags = std::make_shared<CompareFlags>();
  add_run_arguments(*command, flags->runs);
  auto* csv = command->add_flag("--csv", flags->csv, "print CSV");
  auto* markdown =
      command->add_flag("--markdown", flags->markdown, "print a table of Markdown")->excludes(csv);
  command->add_flag("--json", flags->json, "print JSON")->excludes(csv)->excludes(markdown);
  command->footer(
      "Each run is compared with the first. `lockstep plot` draws the metrics of a run.\n\n"
      "Example:\n  lockstep compare demo/41 demo/42 demo/43");
  command->callback([&action, flags] { action = [flags] { return show_comparison(*flags); }; });
}

}  // namespace lockstep::cli
