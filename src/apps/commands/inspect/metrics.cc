#include <limits>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/metrics_display.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

std::string nothing_logged(const model::RunId& id, const api::MetricsQuery& query,
                           const api::SeriesList& list) {
  if (list.ranks_removed)
    return format(
        "the points of rank {1} of {0} are not there: single ranks are kept for a time "
        "(`lockstep serve --keep-ranks`, 24 hours); `lockstep metrics {0}` has the mean and the "
        "extremes over all ranks",
        text(id), *query.rank);
  if (query.name && query.node)
    return format(
        "node {1} of {0} has no telemetry '{2}'; `lockstep metrics {0} --node {1}` lists it",
        text(id), *query.node, *query.name);
  if (query.name)
    return format("{0} has logged no metric '{1}'; `lockstep metrics {0}` lists them", text(id),
                  *query.name);
  if (query.node)
    return format("there is no telemetry of node {1} of {0} so far; it begins when the ranks start",
                  text(id), *query.node);
  if (query.rank)
    return format("rank {1} of {0} has logged no metrics; `lockstep metrics {0}` shows all ranks",
                  text(id), *query.rank);
  return format("{} has logged no metrics; `lockstep.log({{\"loss\": x}}, step=n)` logs one",
                text(id));
}

}  // namespace

// `lockstep metrics RUN [--name M] [--node N]`: every metric in one line, or all points as
// JSON. The line of a metric of several ranks has the mean and names the ranks of the extremes.
void add_metrics(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("metrics", "Print the metrics that a run logged");
  auto run = std::make_shared<std::string>();
  auto query = std::make_shared<api::MetricsQuery>();
  auto json = std::make_shared<bool>(false);
  add_run_argument(*command, *run);
  command->add_option("--name", query->name, "only this metric")->type_name("METRIC");
  auto* rank = command->add_option("--rank", query->rank, "only what this rank logged")
                   ->check(whole_number(0, std::numeric_limits<int>::max()));
  command
      ->add_option("--node", query->node,
                   "the telemetry of this node: its devices, processors, memory, network and disks")
      ->check(whole_number(0, std::numeric_limits<int>::max()))
      ->excludes(rank);
  auto each = std::make_shared<bool>(false);
  command->add_flag("--each-rank", *each,
                    "a line for each rank, instead of one for all ranks of a metric");
  command->add_flag(
      "--json", *json,
      "print the points as JSON; of more than 10000 the first, last, least and greatest of each "
      "stretch");
  command->footer(
      "Example:\n  lockstep metrics demo/42 --name loss\n  lockstep metrics demo/42 --node 0");
  command->callback([&action, run, query, each, json] {
    action = [run, query, each, json]() -> Result<int> {
      const model::RunId id = TRY(run_argument(*run));
      client::Client client = TRY(connect_to_daemon());
      const api::RunView view = TRY(client.call(api::kRun, {.path = id}));
      TRY(check_rank(view, query->rank));
      TRY(check_node(view, query->node));
      if (query->node) query->ranks = api::RankSelection::aggregate;
      if (*each) query->ranks = api::RankSelection::each;
      api::SeriesList list = TRY(client.call(api::kMetrics, {.path = id, .query = *query}));
      if (*json)
        print(dump_json(to_json(list)));
      else
        print(list.series.empty() ? nothing_logged(id, *query, list) : metrics_table(list.series));
      if (list.removed > 0)
        print_to_stderr(
            format("lockstep: {} points of it were removed; `lockstep show` has the "
                   "latest values",
                   list.removed));
      if (list.left_out > 0)
        print_to_stderr(format("{} further series are left out; ask for them by --name or --rank",
                               list.left_out));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
