#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/each_host.h"
#include "apps/host/host_actions.h"
#include "apps/host/host_cluster.h"
#include "apps/run/origin.h"
#include "platform/host_setup/open_ssh.h"
#include "platform/host_setup/set_up.h"

namespace lockstep::cli {

namespace {

// Their machines are gone, so that only the daemon is told.
Result<int> remove_lost_hosts(const HostFlags& flags) {
  if (flags.hosts.empty())
    return Error{Code::invalid, "host rm --lost: name a host; `lockstep host ls` lists them"};
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& host : flags.hosts) {
    TRY(client.call(api::kRemoveHost, {.path = client::Path::of_host(host),
                                       .request = {.by = user_name(), .lost = true}}));
    print(format("{} is off the map, its nodes count as gone, and its credential is void", host));
  }
  return kDone;
}

}  // namespace

Result<int> remove_hosts(const HostFlags& flags) {
  if (flags.lost) return remove_lost_hosts(flags);
  TRY(check_targets(flags.action, flags.hosts));
  if (!flags.name.empty() && flags.hosts.size() != 1)
    return Error{Code::invalid, "host rm: --as names one host"};
  const Duration limit = TRY(duration_option("--timeout", flags.timeout));
  host_setup::OpenSsh ssh;
  const std::size_t failures = for_each_host(
      flags.hosts, [&](std::size_t index, const PrintStep& print_step) -> Result<void> {
        const std::string& target = flags.hosts[index];
        const std::string id = flags.name.empty() ? TRY(host_id(target, "")) : flags.name;
        if (TRY(remove_from_map(id))) print_step("is off the map, and its credential is void");
        TRY(host_setup::take_down(ssh, target, limit));
        print_step("has Lockstep no more; the records of its runs are kept");
        return {};
      });
  return failures == 0 ? kDone : kFailed;
}

}  // namespace lockstep::cli
