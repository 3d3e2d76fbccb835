#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>

#include "apps/exit_codes.h"
#include "apps/own_daemon.h"
#include "apps/subcommand.h"
#include "apps/terminal.h"
#include "base/files.h"
#include "comm/flight/log.h"
#include "comm/flight/report/report.h"
#include "comm/flight/report/table.h"
#include "comm/flight/report/trace.h"
#include "comm/flight/verdict/straggler.h"
#include "comm/flight/verdict/verdict.h"
#include "platform/host/home.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep {
namespace {

struct FlightFlags {
  std::string where;
  std::string trace;
  int last = 20;
  bool json = false;
};

std::string as_text(const FlightGroup& group, std::size_t newest, FlightTime now) {
  std::string heading = format("group {}, {} {}: {}\n", group.name, group.size,
                               group.size == 1 ? "rank" : "ranks", verdict_of(group, now));
  for (const Straggler& one : stragglers_of(group)) heading += words_of(one) + "\n";
  const Table table = flight_table(group, newest, now);
  return table.empty() ? heading : format("{}\n{}", heading, table.text(0));
}

std::string as_json(const std::vector<FlightGroup>& groups, const std::vector<Error>& refused,
                    std::size_t newest, FlightTime now) {
  FlightReport report;
  report.viewed_at = std::chrono::time_point_cast<Duration>(now);
  for (const FlightGroup& group : groups)
    report.groups.push_back(flight_report(group, newest, now));
  for (const Error& error : refused) report.refused.push_back(error.message);
  return dump_json(to_json(report), Indent::two);
}

// Of the newest attempt, as far as its nodes were on this machine.
Result<FlightFolder> records_of(const RunId& id) {
  Client client = TRY(connect());
  const api::RunView run = TRY(client.run(id));
  if (run.attempts.empty())
    return Error{Code::not_found, format("{} has not started yet", text(id))};
  const auto& attempt = run.attempts.back();
  const auto home = TRY(Home::find()).folder;
  FlightFolder all;
  for (const auto& node : attempt.nodes) {
    const NodeFiles files{node_folder(home, {{id, attempt.epoch}, node.index})};
    auto one = read_flight_folder(files.flight());
    if (!one && one.error().code == Code::not_found) continue;
    FlightFolder found = TRY(std::move(one));
    std::ranges::move(found.logs, std::back_inserter(all.logs));
    std::ranges::move(found.refused, std::back_inserter(all.refused));
  }
  if (!all.logs.empty() || !all.refused.empty()) return all;
  return Error{Code::not_found,
               format("on this machine {} left no records of collectives: its ranks made none with "
                      "Lockstep, or ran elsewhere; there they are in {}",
                      text(id), (run_folder(home, id) / "attempt-N/node-N/flight").string())};
}

Result<FlightFolder> records_in(const std::string& where) {
  std::error_code ignored;
  if (std::filesystem::is_directory(where, ignored)) return read_flight_folder(where);
  auto run = run_argument(where);
  if (!run && where.find_first_of("./") == 0) return read_flight_folder(where);  // its error
  return records_of(TRY(std::move(run)));
}

Result<int> show_flight(const FlightFlags& flags) {
  FlightFolder folder = TRY(records_in(flags.where));
  if (folder.logs.empty()) return folder.refused.front();
  for (const Error& error : folder.refused) say(format("lockstep: left out: {}", error.message));
  const FlightTime now = viewed_at(folder.logs, std::chrono::system_clock::now());
  const auto groups = flight_groups(std::move(folder.logs));
  const auto newest = static_cast<std::size_t>(flags.last);
  if (!flags.trace.empty())
    TRY(write_file(flags.trace, dump_json(flight_trace(groups, now)), 0644));
  if (flags.json) {
    print(as_json(groups, folder.refused, newest, now));
    return kDone;
  }
  for (const FlightGroup& group : groups) print(as_text(group, newest, now));
  return kDone;
}

}  // namespace

// `lockstep flight RUN|FOLDER`: what the ranks of a training recorded of their collectives, and who
// holds up whom.
void add_flight(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("flight", "Tell who holds up whom in a training's collectives");
  auto flags = std::make_shared<FlightFlags>();
  command
      ->add_option("run", flags->where,
                   "a run, or the folder where LOCKSTEP_FLIGHT_DIR told ranks to record")
      ->required()
      ->type_name(kRunValue);
  command->add_option("--last", flags->last, "show so many of the newest collectives")
      ->capture_default_str()
      ->check(whole_number(1, 4096));
  command
      ->add_option("--trace", flags->trace,
                   "also write all calls to this file, for https://ui.perfetto.dev")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Examples:\n  lockstep flight demo/3 --trace trace.json\n  lockstep flight /dev/shm/flight");
  command->callback([&action, flags] { action = [flags] { return show_flight(*flags); }; });
}

}  // namespace lockstep
