#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/origin.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kActions = "ls|adopt|stop";

struct OrphanFlags {
  std::string action;
  std::vector<std::string> runs;
  bool json = false;
};

std::string orphans_text(const api::OrphanList& list) {
  if (list.orphans.empty()) return "no run of another store is active here";
  Table table({"RUN", "ATTEMPT", "NAME", "USER", "STATE", "HOSTS", "DEVICES", "ENDS", "COMMAND"});
  const Time now = SystemClock().now();
  for (const api::OrphanView& orphan : list.orphans)
    table.add({orphan.run, format("{}", orphan.attempt), orphan.name.empty() ? "-" : orphan.name,
               orphan.user.empty() ? "-" : orphan.user, orphan.state,
               orphan.hosts.empty() ? "-" : joined(orphan.hosts, " "), format("{}", orphan.devices),
               orphan.ends ? when_text(orphan.ends, now) : std::string("-"),
               joined(orphan.command, " ")});
  return fit_to_terminal(table);
}

void show(const api::OrphanList& list, bool json) {
  print(json ? dump_json(to_json(list), Indent::two) : orphans_text(list));
}

Result<int> list_orphans(const OrphanFlags& flags) {
  if (!flags.runs.empty())
    return Error{Code::invalid, "orphan ls: lists all of them: leave out the run"};
  client::Client client = TRY(connect_to_daemon());
  show(TRY(client.call(api::kOrphans)), flags.json);
  return kDone;
}

Result<std::vector<model::RunId>> named_runs(const OrphanFlags& flags) {
  if (flags.runs.empty())
    return Error{Code::invalid, format("orphan {}: name a run; `lockstep orphan ls` lists those "
                                       "that there are",
                                       flags.action)};
  return run_arguments(flags.runs);
}

Result<int> adopt(const OrphanFlags& flags) {
  const auto runs = TRY(named_runs(flags));
  client::Client client = TRY(connect_to_daemon());
  for (const model::RunId& run : runs) {
    const api::RunView view =
        TRY(client.call(api::kAdoptOrphan, {.path = run, .request = {.by = user_name()}}));
    print(flags.json ? dump_json(to_json(view), Indent::two)
                     : format("adopted {}; `lockstep show {}` shows it", view.id, view.id));
  }
  return kDone;
}

Result<int> stop(const OrphanFlags& flags) {
  const auto runs = TRY(named_runs(flags));
  client::Client client = TRY(connect_to_daemon());
  api::OrphanList list;
  for (const model::RunId& run : runs)
    list = TRY(client.call(api::kStopOrphan, {.path = run, .request = {.by = user_name()}}));
  if (flags.json)
    show(list, true);
  else
    for (const model::RunId& run : runs)
      print(format("{} is asked to end; `lockstep orphan ls` shows when it is gone", text(run)));
  return kDone;
}

Result<int> act_on(const OrphanFlags& flags) {
  if (flags.action == "ls") return list_orphans(flags);
  if (flags.action == "adopt") return adopt(flags);
  if (flags.action == "stop") return stop(flags);
  return Error{Code::invalid,
               format("orphan: there is no action '{}': write one of {}", flags.action, kActions)};
}

}  // namespace

// `lockstep orphan ls|adopt|stop [RUN...]`: runs that another store has started here.
void add_orphan(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "orphan", "List runs of another store that go on here, adopt or stop them");
  auto flags = std::make_shared<OrphanFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kActions);
  command->add_option("run", flags->runs, "runs, such as demo/42")->type_name(kRunValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "When the daemon's store was moved away or put back from an older copy, runs that it does "
      "not\n"
      "know go on: nothing ends them unasked, and their devices count as taken. adopt: the run is "
      "one of\nthis store from now on, with all that it has collected. stop: its ranks are "
      "signalled, and killed\nafter the grace period.\n\n"
      "Examples:\n"
      "  lockstep orphan ls\n"
      "  lockstep orphan adopt demo/42");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
