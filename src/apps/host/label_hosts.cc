#include "apps/cli/exit_codes.h"
#include "apps/host/host_actions.h"
#include "apps/host/host_cluster.h"
#include "base/format.h"

namespace lockstep::cli {

Result<int> label_hosts(const HostFlags& flags) {
  if (flags.hosts.empty() || flags.labels.empty())
    return Error{Code::invalid,
                 "host label: name hosts and labels, such as `lockstep host label gpu1 --label "
                 "rack=a3`; `lockstep host ls` lists the hosts"};
  const map::Labels labels = TRY(map::parse_labels(flags.labels));
  api::HostList list;
  for (const std::string& host : flags.hosts) list = TRY(set_labels(host, labels));
  show_hosts(std::move(list), flags);
  return kDone;
}

}  // namespace lockstep::cli
