#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "platform/api/json.h"

namespace lockstep::cli {

// The token alone goes to standard output, so that it can be piped into `lockstep host join`.
Result<int> make_host_token(const HostFlags& flags) {
  if (flags.hosts.size() != 1)
    return Error{Code::invalid,
                 "host token: name one host, as the map should call it, such as gpu1"};
  client::Client client = TRY(connect_to_daemon());
  api::JoinTokenRequest request;
  if (!flags.pod.empty()) request.pod = flags.pod;
  const auto made = TRY(client.call(
      api::kHostToken, {.path = client::Path::of_host(flags.hosts.front()), .request = request}));
  if (flags.json) {
    print(dump_json(to_json(made), Indent::two));
    return kDone;
  }
  print(made.token);
  print_to_stderr(format("lockstep: {} joins once with it, until {}: `lockstep host join URL`",
                         flags.hosts.front(), text(made.end)));
  return kDone;
}

}  // namespace lockstep::cli
