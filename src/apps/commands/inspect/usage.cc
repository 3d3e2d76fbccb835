#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "apps/budget/budget_text.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct UseFlags {
  std::string by = "project";
  std::string project, user, run, month;
  bool csv = false;
  bool json = false;
};

Result<int> usage(const UseFlags& flags) {
  api::DeviceUseQuery query{.by = flags.by};
  const auto set = [](std::optional<std::string>& field, const std::string& value) {
    if (!value.empty()) field = value;
  };
  set(query.project, flags.project);
  set(query.user, flags.user);
  set(query.run, flags.run);
  set(query.month, flags.month);
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kDeviceUse, {.query = query}));
  std::vector<std::string> columns;
  for (const auto word : std::views::split(flags.by, ','))
    columns.emplace_back(word.begin(), word.end());
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : device_use_text(list, columns, flags.csv ? TextForm::csv : TextForm::table));
  return kDone;
}

}  // namespace

// `lockstep usage [--by COLUMNS] [--month MONTH]`.
void add_usage(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("usage", "Show energy, idle devices and FLOPs of runs, users or projects");
  auto flags = std::make_shared<UseFlags>();
  command
      ->add_option("--by", flags->by, "the columns, of project, user, run and month, with commas")
      ->type_name("COLUMNS")
      ->capture_default_str();
  command->add_option("--month", flags->month, "only this month, such as 2026-11")
      ->type_name("MONTH");
  command->add_option("--project", flags->project, "only runs of this project")
      ->type_name("PROJECT");
  command->add_option("--user", flags->user, "only runs of this user")->type_name("USER");
  command->add_option("--run", flags->run, "only this run, such as demo/42")->type_name(kRunValue);
  command->add_flag("--csv", flags->csv, "print CSV");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Energy is in kWh, MINUTES are device-minutes whose use is known, IDLE those with a "
      "utilization\nbelow 5 %. `lockstep budget usage` shows device-minutes that were charged.\n\n"
      "Examples:\n"
      "  lockstep usage --by user,month\n"
      "  lockstep usage --by run --month 2026-11 --csv");
  command->callback([&action, flags] { action = [flags] { return usage(*flags); }; });
}

}  // namespace lockstep::cli
