#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "base/clock.h"
#include "base/os/files.h"
#include "comm/flight/diagnosis/across_groups.h"
#include "comm/flight/diagnosis/diagnosis.h"
#include "comm/flight/diagnosis/slow_link.h"
#include "comm/flight/diagnosis/straggler.h"
#include "comm/flight/folder.h"
#include "comm/flight/log.h"
#include "comm/flight/report/report.h"
#include "comm/flight/report/table.h"
#include "comm/flight/report/trace.h"
#include "net/base64.h"
#include "platform/api/messages.h"
#include "platform/client/client.h"
#include "platform/host/home.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep::cli {
namespace {

struct FlightFlags {
  std::string where;
  std::string trace;
  int last = 20;
  bool json = false;
};

std::string as_text(const comm::FlightGroup& group, std::size_t newest, comm::FlightTime now) {
  std::string heading =
      group.name.starts_with("world")
          ? format("group {}, {} {}", group.name, group.size, group.size == 1 ? "rank" : "ranks")
          : group.name;
  heading += format(": {}\n", comm::diagnose(group, now));
  for (const comm::Straggler& one : comm::find_stragglers(group)) heading += text(one) + "\n";
  for (const comm::SlowLink& one : comm::find_slow_links(group)) heading += text(one) + "\n";
  const Table table = comm::flight_table(group, newest, now);
  return table.empty() ? heading : format("{}\n{}", heading, table.text(0));
}

std::string as_json(const std::vector<comm::FlightGroup>& groups, const std::vector<Error>& refused,
                    std::size_t newest, comm::FlightTime now) {
  comm::FlightReport report;
  report.viewed_at = std::chrono::time_point_cast<Duration>(now);
  report.held_up_by = comm::root_cause_ranks(groups);
  for (const comm::FlightGroup& group : groups)
    report.groups.push_back(comm::flight_report(group, newest, now));
  for (const Error& error : refused) report.refused.push_back(error.message);
  return dump_json(to_json(report), Indent::two);
}

void add(comm::FlightFolder more, comm::FlightFolder& all) {
  std::ranges::move(more.logs, std::back_inserter(all.logs));
  std::ranges::move(more.refused, std::back_inserter(all.refused));
}

Result<comm::FlightLog> log_of(const api::FlightRecord& record, const api::NodeView& node) {
  const auto bytes = net::from_base64(record.bytes);
  if (!bytes) return Error{Code::corrupt, "a record did not come as base64"};
  comm::FlightLog log = TRY(comm::parse_flight(*bytes));
  const bool is_gone =
      node.state == model::NodeState::released || node.state == model::NodeState::lost;
  log.process = record.ended || is_gone ? comm::ProcessState::ended : comm::ProcessState::runs;
  return log;
}

// The records of nodes on other machines, as their agents deliver them to the daemon.
class FlightDeliveries {
 public:
  FlightDeliveries(client::Client& client, const model::RunId& id) : client_(client), id_(id) {}

  comm::FlightFolder of_node(const api::NodeView& node) {
    const auto where = format("node {} on {}", node.index, node.host);
    comm::FlightFolder folder;
    auto came = client_.call(
        api::kFlight,
        {.path = id_, .query = {node.index, asked_, in_seconds(deadline_.remaining())}});
    if (!came) {
      folder.refused.push_back(std::move(came).error().with_context(where));
      return folder;
    }
    asked_ = came->asked;  // the first call asks all its nodes
    if (came->records.empty())
      missing_.push_back({Code::not_found, format("{} has delivered no records", where)});
    for (const auto& record : came->records) {
      auto log = log_of(record, node);
      if (log)
        folder.logs.push_back(*std::move(log));
      else
        folder.refused.push_back(std::move(log).error().with_context(where));
    }
    if (came->left_out > 0)
      folder.refused.push_back({Code::exhausted, format("{}: {} records more than its agent "
                                                        "delivers at once",
                                                        where, came->left_out)});
    return folder;
  }

  // Nodes that delivered nothing.
  const std::vector<Error>& missing() const { return missing_; }

 private:
  static constexpr Duration kTimeout = std::chrono::seconds(5);  // in all

  client::Client& client_;
  const model::RunId id_;
  const Deadline deadline_ = Deadline::after(kTimeout);
  std::optional<Time> asked_;
  std::vector<Error> missing_;
};

// The records of the newest attempt: files of nodes on this machine, and deliveries of the agents
// of other nodes.
Result<comm::FlightFolder> records_of(const model::RunId& id) {
  client::Client client = TRY(connect_to_daemon());
  const api::RunView run = TRY(client.call(api::kRun, {.path = id}));
  if (run.attempts.empty())
    return Error{Code::not_found, format("{} has not started yet", text(id))};
  const auto& attempt = run.attempts.back();
  const auto home = TRY(host::Home::find()).folder;
  FlightDeliveries deliveries(client, id);
  comm::FlightFolder all;
  for (const auto& node : attempt.nodes) {
    const host::NodeFiles files{
        host::node_folder(home, {attempt.generation, {{id, attempt.epoch}, node.index}})};
    auto here = comm::read_flight_folder(files.flight());
    if (!here && here.error().code != Code::not_found) return std::move(here).error();
    add(here ? *std::move(here) : deliveries.of_node(node), all);
  }
  if (!all.logs.empty() || !all.refused.empty()) {
    add({.logs = {}, .refused = deliveries.missing()}, all);
    return all;
  }
  return Error{
      Code::not_found,
      format(
          "{} left no records of collectives: its ranks made none with Lockstep, or "
          "their machines were lost with them, in {}",
          text(id),
          (host::run_folder(home, attempt.generation, id) / "attempt-N/node-N/flight").string())};
}

Result<comm::FlightFolder> records_in(const std::string& where) {
  std::error_code ignored;
  if (std::filesystem::is_directory(where, ignored)) return comm::read_flight_folder(where);
  auto run = run_argument(where);
  if (!run && where.find_first_of("./") == 0) return comm::read_flight_folder(where);  // its error
  return records_of(TRY(std::move(run)));
}

Result<int> show_flight(const FlightFlags& flags) {
  comm::FlightFolder folder = TRY(records_in(flags.where));
  if (folder.logs.empty()) return folder.refused.front();
  for (const Error& error : folder.refused)
    print_to_stderr(format("lockstep: left out: {}", error.message));
  const comm::FlightTime now = comm::viewed_at(folder.logs, std::chrono::system_clock::now());
  const auto groups = comm::flight_groups(std::move(folder.logs));
  const auto newest = static_cast<std::size_t>(flags.last);
  if (!flags.trace.empty())
    TRY(write_file(flags.trace, dump_json(comm::flight_trace(groups, now)), 0644));
  if (flags.json) {
    print(as_json(groups, folder.refused, newest, now));
    return kDone;
  }
  if (const auto holdup = comm::describe_stall_across_groups(groups); !holdup.empty())
    print(holdup + "\n");
  for (const comm::FlightGroup& group : groups) print(as_text(group, newest, now));
  return kDone;
}

}  // namespace

// `lockstep flight RUN|FOLDER`: the recorded collectives of the ranks of a training, and the rank
// that holds up the others.
void add_flight(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "flight", "Tell which rank holds up the others in a training's collectives");
  auto flags = std::make_shared<FlightFlags>();
  command
      ->add_option("run", flags->where,
                   "a run, or a folder with records (LOCKSTEP_FLIGHT_DIR) or torch's dumps")
      ->required()
      ->type_name(kRunValue);
  command->add_option("--last", flags->last, "show this number of the newest collectives")
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

}  // namespace lockstep::cli
