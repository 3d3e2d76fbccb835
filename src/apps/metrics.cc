#include <memory>

#include "apps/command.h"
#include "apps/present.h"
#include "text/convert.h"

namespace lockstep {

// `lockstep metrics RUN [--name M]`: every metric's course in one line, or all points as JSON.
void add_metrics(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("metrics", "Print the metrics that a run logged");
  auto run = std::make_shared<std::string>();
  auto query = std::make_shared<MetricsQuery>();
  auto json = std::make_shared<bool>(false);
  command->add_option("run", *run, "the run, such as demo/42")->required();
  command->add_option("--name", query->name, "only this metric");
  command->add_option("--rank", query->rank, "only what this rank logged");
  command->add_flag("--json", *json, "print every point as JSON");
  command->callback([&action, run, query, json] {
    action = [run, query, json]() -> Result<int> {
      Client client = TRY(connect());
      api::SeriesList list = TRY(client.metrics(TRY(run_argument(*run)), *query));
      if (*json)
        print(dump_json(to_json(list)));
      else if (list.series.empty())
        print(format("{} has logged no metrics; `lockstep.log({{\"loss\": x}}, step=n)` logs one",
                     *run));
      else
        print(metrics_table(list.series));
      return kDone;
    };
  });
}

}  // namespace lockstep
