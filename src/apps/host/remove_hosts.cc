#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/host/each_host.h"
#include "apps/host/host_actions.h"
#include "platform/host_setup/open_ssh.h"
#include "platform/host_setup/set_up.h"

namespace lockstep::cli {

Result<int> remove_hosts(const HostFlags& flags) {
  TRY(check_targets(flags.action, flags.hosts));
  const Duration limit = TRY(duration_option("--timeout", flags.timeout));
  host_setup::OpenSsh ssh;
  const std::size_t failures = for_each_host(
      flags.hosts, [&](std::size_t index, const PrintStep& print_step) -> Result<void> {
        TRY(host_setup::take_down(ssh, flags.hosts[index], limit));
        print_step("has Lockstep no more; the records of its runs are kept");
        return {};
      });
  return failures == 0 ? kDone : kFailed;
}

}  // namespace lockstep::cli
