#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"
#include "text/json.h"

namespace lockstep::cli {

// `lockstep version`: the versions of this program and of a running daemon (it starts none), with
// errors of that call.
void add_version(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("version", "Print the version of this program and the daemon");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->footer("Example:\n  lockstep version --json");
  command->callback([&action, json] {
    action = [json]() -> Result<int> {
      Json versions = {{"version", LOCKSTEP_VERSION}};
      std::vector<std::string> problems, notices;
      if (auto client = TRY(find_chosen_daemon())) {
        api::Version daemon = TRY(client->call(api::kVersion));
        versions["daemon"] = to_json(daemon);
        versions["daemon"]["url"] = client->url();
        problems = std::move(daemon.problems);
        notices = std::move(daemon.notices);
      }
      if (*json) {
        print(dump_json(versions));
        return kDone;
      }
      print(format("lockstep {}", LOCKSTEP_VERSION));
      if (versions.contains("daemon"))
        print(format("daemon   {} at {}, process {}",
                     versions["daemon"]["version"].get<std::string>(),
                     versions["daemon"]["url"].get<std::string>(),
                     versions["daemon"]["pid"].get<std::int64_t>()));
      else
        print("daemon   none is running");
      for (const std::string& trouble : problems) print("trouble  " + trouble);
      print_notices(notices);
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
