#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/people/people_text.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

std::string whoami_text(const api::WhoAmI& me) {
  std::string words = me.user;
  if (me.kind == identity::UserKind::service) words += ", a service account";
  if (me.admin) words += ", an admin";
  words += "\ntoken     ";
  words += me.token.empty() ? "the one in the daemon's folder" : me.token;
  if (me.token_ends)
    words += ", ends " + text(std::chrono::floor<std::chrono::seconds>(*me.token_ends));
  words += "\nprojects  " + roles_text(me.projects);
  return words + "\nruns go   to " + me.default_project + " if they name no project";
}

Result<int> whoami(bool json) {
  client::Client client = TRY(connect_to_daemon());
  const auto me = TRY(client.call(api::kWhoAmI));
  print(json ? dump_json(to_json(me), Indent::two) : whoami_text(me));
  return kDone;
}

}  // namespace

// `lockstep whoami`: the user of the token, and its rights.
void add_whoami(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("whoami", "Show as which user you call, and its rights");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep whoami --json");
  command->callback([&action, json] { action = [json] { return whoami(*json); }; });
}

}  // namespace lockstep::cli
