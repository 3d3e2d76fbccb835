#include <algorithm>
#include <array>
#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/origin.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kVerbs = "ls|cordon|drain|release";

struct HostFlags {
  std::string verb;
  std::vector<std::string> hosts;
  std::string reason;
  bool json = false;
};

struct Verb {
  std::string_view name;
  model::HostState state;
};
constexpr std::array<Verb, 3> kChanges = {{{"cordon", model::HostState::closed},
                                           {"drain", model::HostState::drained},
                                           {"release", model::HostState::open}}};

std::string hosts_table(const api::HostList& list) {
  Table table({"HOST", "POD", "STATE", "FREE", "DEVICES", "RUNS", "SINCE", "REASON"});
  const Time now = SystemClock().now();
  for (const api::HostView& host : list.hosts)
    table.add({host.id, host.pod.empty() ? "-" : host.pod,
               std::string(model::displayed_host_state(host.state)), format("{}", host.free),
               format("{}", host.devices), host.runs.empty() ? "-" : joined(host.runs, " "),
               host.since ? age(*host.since, now) : "-", host.reason});
  return fit_to_terminal(table);
}

void show(const api::HostList& list, bool json) {
  print(json ? dump_json(to_json(list), Indent::two) : hosts_table(list));
}

Result<int> list_hosts(const HostFlags& flags) {
  if (!flags.reason.empty())
    return Error{Code::invalid, "host ls changes nothing: leave out --reason"};
  client::Client client = TRY(connect_to_daemon());
  api::HostList list = TRY(client.call(api::kHosts));
  for (const std::string& name : flags.hosts)
    if (std::ranges::find(list.hosts, name, &api::HostView::id) == list.hosts.end())
      return Error{Code::not_found,
                   format("there is no host '{}' on the map; `lockstep host ls` lists them", name)};
  if (!flags.hosts.empty())
    std::erase_if(list.hosts, [&](const api::HostView& host) {
      return std::ranges::find(flags.hosts, host.id) == flags.hosts.end();
    });
  show(list, flags.json);
  return kDone;
}

Result<int> change_hosts(const HostFlags& flags, model::HostState state) {
  if (flags.hosts.empty())
    return Error{Code::invalid,
                 format("host {}: name a host; `lockstep host ls` lists them", flags.verb)};
  client::Client client = TRY(connect_to_daemon());
  api::HostList list;
  for (const std::string& host : flags.hosts)
    list = TRY(client.call(
        api::kSetHost,
        {.request = {.host = host, .state = state, .by = user_name(), .reason = flags.reason}}));
  std::erase_if(list.hosts, [&](const api::HostView& host) {
    return std::ranges::find(flags.hosts, host.id) == flags.hosts.end();
  });
  show(list, flags.json);
  return kDone;
}

Result<int> act_on(const HostFlags& flags) {
  if (flags.verb == "ls") return list_hosts(flags);
  const auto* const change = std::ranges::find(kChanges, flags.verb, &Verb::name);
  if (change == kChanges.end())
    return Error{Code::invalid,
                 format("host: there is no action '{}': write one of {}", flags.verb, kVerbs)};
  return change_hosts(flags, change->state);
}

}  // namespace

// `lockstep host ls|cordon|drain|release [HOST...]`: shows and sets which hosts accept runs.
void add_host(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("host", "List hosts, or keep runs from them");
  auto flags = std::make_shared<HostFlags>();
  command->add_option("action", flags->verb, "what to do")->required()->type_name(kVerbs);
  command->add_option("host", flags->hosts, "hosts by their ids in the map")->type_name(kHostValue);
  command
      ->add_option("--reason", flags->reason,
                   "why; shown with the host and with runs that wait for it")
      ->type_name("TEXT");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "cordon, drain: no run starts there any more, those that are there go on to their end; drain "
      "says\nthat the host is to be taken away. release: it is given to runs again.\n\n"
      "Examples:\n"
      "  lockstep host ls\n"
      "  lockstep host drain node-3 --reason \"its fan is loud\"");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
