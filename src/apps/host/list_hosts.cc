#include <algorithm>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

std::string hosts_table(const api::HostList& list) {
  const bool has_labels = std::ranges::any_of(
      list.hosts, [](const api::HostView& host) { return !host.labels.empty(); });
  // With one engine all hosts have the same.
  const bool has_engines = std::ranges::any_of(list.hosts, [&](const api::HostView& host) {
    return host.engine != list.hosts.front().engine;
  });
  std::vector<std::string> titles = {"HOST",    "POD",  "STATE", "FREE",
                                     "DEVICES", "RUNS", "SINCE", "REASON"};
  if (has_labels) titles.insert(titles.end() - 1, "LABELS");
  if (has_engines) titles.insert(titles.begin() + 2, "ENGINE");
  Table table(titles);
  const Time now = SystemClock().now();
  for (const api::HostView& host : list.hosts) {
    std::vector<std::string> cells = {
        host.id,
        host.pod.empty() ? "-" : host.pod,
        std::string(host.unavailable.empty() ? model::displayed_host_state(host.state)
                                             : "unavailable"),
        format("{}", host.free),
        format("{}", host.devices),
        host.runs.empty() ? "-" : joined(host.runs, " "),
        host.since ? age(*host.since, now) : "-",
        host.unavailable.empty() ? host.reason : host.unavailable};
    if (has_labels)
      cells.insert(cells.end() - 1, host.labels.empty() ? "-" : map::labels_text(host.labels));
    if (has_engines) cells.insert(cells.begin() + 2, host.engine);
    table.add(std::move(cells));
  }
  return fit_to_terminal(table);
}

}  // namespace

void show_hosts(api::HostList list, const HostFlags& flags) {
  if (!flags.hosts.empty())
    std::erase_if(list.hosts, [&](const api::HostView& host) {
      return std::ranges::find(flags.hosts, host.id) == flags.hosts.end();
    });
  print(flags.json ? dump_json(to_json(list), Indent::two) : hosts_table(list));
}

Result<int> list_hosts(const HostFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  const api::HostList list = TRY(client.call(api::kHosts));
  for (const std::string& name : flags.hosts)
    if (std::ranges::find(list.hosts, name, &api::HostView::id) == list.hosts.end())
      return Error{Code::not_found,
                   format("there is no host '{}' on the map; `lockstep host ls` lists them", name)};
  show_hosts(list, flags);
  return kDone;
}

}  // namespace lockstep::cli
