#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

std::string queue_table(const api::QueueView& queue) {
  Table table({"", "RUN", "NAME", "USER", "NODES", "DEVICES", "TIMEOUT", "CAME", "STARTS",
               "BLOCKER", "REASON"});
  int position = 0;
  for (const api::WaitingView& run : queue.waiting)
    table.add({format("{}", ++position), run.run, run.name, run.user, format("{}", run.nodes),
               format("{}", run.devices), text(run.timeout), age(run.since, queue.time),
               run.expected_start ? start_text(*run.expected_start, std::nullopt, queue.time) : "-",
               run.blocker.value_or("-"), run.reason});
  return fit_to_terminal(table);
}

std::string queue_text(const api::QueueView& queue) {
  if (queue.waiting.empty())
    return format("no run waits; {} hold{} devices",
                  queue.allocations.empty() ? std::string("no runs")
                                            : format("{} run{}", queue.allocations.size(),
                                                     queue.allocations.size() == 1 ? "" : "s"),
                  queue.allocations.size() == 1 ? "s" : "");
  std::string lines = queue_table(queue);
  if (queue.left_out > 0) lines += format("\nand {} more; --limit shows more", queue.left_out);
  return lines;
}

}  // namespace

// `lockstep queue`: the waiting runs in order, why each waits, for which runs, and until when.
void add_queue(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "queue", "Show the runs that wait, in order, why each waits, and when it starts");
  auto query = std::make_shared<api::QueueQuery>();
  auto json = std::make_shared<bool>(false);
  command->add_option("--limit", query->limit, "show at most this number of runs")
      ->capture_default_str()
      ->check(whole_number(1, 10'000));
  command->add_flag("--json", *json, "print JSON, with the runs that hold devices");
  command->footer(
      "STARTS is an estimate: all run as long as they may, and none passes another. `lockstep why "
      "RUN`\nhas the latest start, too. Behind the runs that wait for devices stand those that are "
      "held, start\nlater or follow other runs.\n\n"
      "Example:\n  lockstep queue\n  lockstep queue --json");
  command->callback([&action, query, json] {
    action = [query, json]() -> Result<int> {
      client::Client client = TRY(connect_to_daemon());
      const api::QueueView queue = TRY(client.call(api::kQueue, {.query = *query}));
      print(*json ? dump_json(to_json(queue), Indent::two)
                  : trouble_lines(queue.problems) + queue_text(queue));
      if (!*json) print_notices(queue.notices);
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
