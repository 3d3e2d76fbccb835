#include <memory>
#include <optional>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/queried_runs.h"
#include "apps/run/run_display.h"
#include "apps/run/saved_view.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "platform/run_query/query.h"

namespace lockstep::cli {
namespace {

std::string nothing_found(const api::RunsQuery& query) {
  if (!query.project && !query.state && !query.tag && !query.user && !query.since && !query.sort &&
      !query.query)
    return "no runs; `lockstep run -- PROGRAM` starts one";
  std::string which;
  if (query.project) which += format(" of the project '{}'", *query.project);
  if (query.user) which += format(" of the user '{}'", *query.user);
  if (query.tag) which += format(" with the tag {}", *query.tag);
  if (query.since) which += format(" since {}", text(*query.since));
  if (query.sort) which += format(" with the metric '{}'", *query.sort);
  if (query.state) which += format(" in the state {}", text(*query.state));
  if (query.query) which += format(" for the query '{}'", *query.query);
  return format("no runs{}; `lockstep ps` lists all", which);
}

// Code that asks for more continues with `next`; a person narrows the query.
std::string rest_line(const api::RunList& list, const api::RunsQuery& query) {
  if (!query.query || !list.next || std::ssize(list.runs) >= query.limit) return "";
  return "more runs may match: the first 100,000 in this order were looked at; add a term\n"
         "such as submitted>-30d\n";
}

// The runs, or the groups of a query with `group:`.
Result<std::string> table_of(const api::RunList& list, const api::RunsQuery& query) {
  if (list.runs.empty() && list.groups.empty()) return nothing_found(query);
  if (!query.query) return runs_table(list, query.sort);
  const run_query::Query line = TRY(run_query::parse_query(*query.query));
  if (line.group) return groups_table(list, line);
  const bool shown = line.sort && !run_query::is_field(line.sort->field);
  return runs_table(list, shown ? std::optional(line.sort->field) : std::nullopt);
}

struct PsFlags {
  api::RunsQuery query{};
  std::optional<std::string> state{}, by{};
  std::string since{}, view{};
  bool descending = false;
  bool json = false;
};

Result<int> list_matching(const PsFlags& flags) {
  api::RunsQuery query = flags.query;
  if (flags.state) query.state = TRY(parse_name<model::RunState>(*flags.state));
  if (flags.by) query.value = TRY(parse_name<api::SortValue>(*flags.by));
  if (flags.descending) query.descending = true;
  if (!flags.since.empty())
    query.since = SystemClock().now() - TRY(duration_option("--since", flags.since));
  client::Client client = TRY(connect_to_daemon());
  if (!flags.view.empty())
    query.query = TRY(query_of_view(TRY(saved_view(client, flags.view)).text));
  const api::RunList list = TRY(list_runs(client, query));
  if (flags.json) {
    print(dump_json(to_json(list), Indent::two));
    return kDone;
  }
  print(trouble_lines(list.problems) + rest_line(list, query) + TRY(table_of(list, query)));
  print_notices(list.notices);
  return kDone;
}

}  // namespace

// `lockstep ps [--state S] [--project P] [-q LINE]`: runs, newest first.
void add_ps(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ps", "List runs, newest first");
  auto flags = std::make_shared<PsFlags>();
  api::RunsQuery& query = flags->query;
  command->add_option("--project", query.project, "only runs of this project")
      ->type_name("PROJECT");
  command->add_option("--state", flags->state, "only runs in this state")
      ->type_name(joined(all_names<model::RunState>(), "|"));
  command->add_option("--tag", query.tag, "only runs with this tag")->type_name("KEY[=VALUE]");
  command->add_option("--user", query.user, "only runs that this user submitted")
      ->type_name("USER");
  command->add_option("--since", flags->since, "only runs that were submitted so long ago at most")
      ->type_name("DURATION");
  auto* sort = command
                   ->add_option("--sort", query.sort,
                                "sort the runs that have this metric by it, the least value first")
                   ->type_name("METRIC");
  command->add_option("--by", flags->by, "the value of the metric that counts (default: last)")
      ->type_name(joined(all_names<api::SortValue>(), "|"))
      ->needs(sort);
  command->add_flag("--descending", flags->descending, "the greatest value first")->needs(sort);
  auto* line = command
                   ->add_option("-q,--query", query.query,
                                "only runs that this line selects, in its order or groups, such as "
                                "'state:failed lr>=1e-3 sort:-loss'; docs/design/run-query.md")
                   ->type_name("LINE")
                   ->excludes(sort);
  command
      ->add_option("--view", flags->view,
                   "only runs of your view of this name, which has a query line")
      ->type_name("NAME")
      ->excludes(sort)
      ->excludes(line);
  command->add_option("--limit", query.limit, "show at most this number of runs")
      ->capture_default_str()
      ->check(whole_number(1, 1000));
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Example:\n  lockstep ps --state running\n  lockstep ps --sort loss --by min --since 7d\n"
      "  lockstep ps -q 'project:vision lr>=1e-3 submitted>-7d sort:-loss'\n"
      "  lockstep ps -q 'sort:loss group:lr'");
  command->callback([&action, flags] { action = [flags] { return list_matching(*flags); }; });
}

}  // namespace lockstep::cli
