#include <memory>

#include "apps/command.h"
#include "apps/present.h"
#include "text/convert.h"

namespace lockstep {

// `lockstep ps [--state S] [--project P]`: runs, newest first.
void add_ps(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("ps", "List runs, newest first");
  auto query = std::make_shared<RunsQuery>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--project", query->project, "only runs of this project");
  command->add_option(
      "--state", query->state,
      "only queued, held, starting, running, succeeded, failed, timed_out or cancelled");
  command->add_option("--limit", query->limit, "at most so many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", *json, "print JSON");
  command->callback([&action, query, json] {
    action = [query, json]() -> Result<int> {
      Client client = TRY(connect());
      api::RunList list = TRY(client.runs(*query));
      if (*json)
        print(dump_json(to_json(list), Indent::two));
      else if (list.runs.empty())
        print("no runs; `lockstep run -- PROGRAM` starts one");
      else
        print(runs_table(list.runs));
      return kDone;
    };
  });
}

}  // namespace lockstep
