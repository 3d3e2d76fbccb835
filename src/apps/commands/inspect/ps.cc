#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

std::string nothing_found(const api::RunsQuery& query) {
  if (!query.project && !query.state && !query.tag && !query.user)
    return "no runs; `lockstep run -- PROGRAM` starts one";
  std::string which;
  if (query.project) which += format(" of the project '{}'", *query.project);
  if (query.user) which += format(" of the user '{}'", *query.user);
  if (query.tag) which += format(" with the tag {}", *query.tag);
  if (query.state) which += format(" in the state {}", text(*query.state));
  return format("no runs{}; `lockstep ps` lists all", which);
}

}  // namespace

// `lockstep ps [--state S] [--project P]`: runs, newest first.
void add_ps(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ps", "List runs, newest first");
  auto query = std::make_shared<api::RunsQuery>();
  auto state = std::make_shared<std::optional<std::string>>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--project", query->project, "only runs of this project")
      ->type_name("PROJECT");
  command->add_option("--state", *state, "only runs in this state")
      ->type_name(joined(all_names<model::RunState>(), "|"));
  command->add_option("--tag", query->tag, "only runs with this tag")->type_name("KEY[=VALUE]");
  command->add_option("--user", query->user, "only runs that this user submitted")
      ->type_name("USER");
  command->add_option("--limit", query->limit, "show at most this number of runs")
      ->capture_default_str()
      ->check(whole_number(1, 1000));
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep ps --state running");
  command->callback([&action, query, state, json] {
    action = [query, state, json]() -> Result<int> {
      if (*state) query->state = TRY(parse_name<model::RunState>(**state));
      client::Client client = TRY(connect_to_daemon());
      api::RunList list = TRY(client.call(api::kRuns, {.query = *query}));
      if (*json)
        print(dump_json(to_json(list), Indent::two));
      else
        print(trouble_lines(list.problems) +
              (list.runs.empty() ? nothing_found(*query) : runs_table(list.runs)));
      if (!*json) print_notices(list.notices);
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
