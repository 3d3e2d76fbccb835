#include "apps/cli/exit_codes.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/run/origin.h"

namespace lockstep::cli {

Result<int> change_hosts(const HostFlags& flags, model::HostState state) {
  if (flags.hosts.empty())
    return Error{Code::invalid,
                 format("host {}: name a host; `lockstep host ls` lists them", flags.action)};
  client::Client client = TRY(connect_to_daemon());
  api::HostList list;
  for (const std::string& host : flags.hosts)
    list = TRY(client.call(
        api::kSetHost,
        {.request = {.host = host, .state = state, .by = user_name(), .reason = flags.reason}}));
  show_hosts(std::move(list), flags);
  return kDone;
}

}  // namespace lockstep::cli
