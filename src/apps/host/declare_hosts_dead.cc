#include <algorithm>

#include "apps/cli/exit_codes.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/run/origin.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

// Most mistakes are a wrong name, of a host that works.
Result<void> check_unavailable(const api::HostList& list, const std::string& name) {
  const auto host = std::ranges::find(list.hosts, name, &api::HostView::id);
  if (host == list.hosts.end())
    return Error{Code::not_found,
                 format("there is no host '{}' on the map; `lockstep host ls` lists them", name)};
  if (!host->unavailable.empty()) return {};
  return Error{Code::invalid,
               format("host dead: host {} answers, and ranks there would go on beside those of the "
                      "next attempt; add --yes if its machine is off",
                      name)};
}

}  // namespace

Result<int> declare_hosts_dead(const HostFlags& flags) {
  if (flags.hosts.empty())
    return Error{Code::invalid, "host dead: name a host; `lockstep host ls` lists them"};
  client::Client client = TRY(connect_to_daemon());
  api::HostList list = TRY(client.call(api::kHosts));
  for (const std::string& host : flags.hosts)
    if (!flags.yes) TRY(check_unavailable(list, host));
  for (const std::string& host : flags.hosts)
    list = TRY(client.call(api::kHostDead,
                           {.path = client::Path::of_host(host), .request = {.by = user_name()}}));
  show_hosts(std::move(list), flags);
  return kDone;
}

}  // namespace lockstep::cli
