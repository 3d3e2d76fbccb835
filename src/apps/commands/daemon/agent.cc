#include "platform/agent/agent.h"

#include <sys/prctl.h>

#include "apps/cli/subcommand.h"

namespace lockstep::cli {

// `lockstep agent LAUNCH_FILE`: started by engines, not by people.
void add_agent(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("agent", "Run one node of an attempt (engines call this)");
  command->group("");
  auto file = std::make_shared<std::string>();
  command->add_option("launch_file", *file, "the node's launch.json")
      ->required()
      ->type_name(kFileValue);
  command->callback([&action, file] {
    action = [file] {
      // Executed through /proc/self/exe, it would be called "exe" in lists of processes.
      ::prctl(PR_SET_NAME, "lockstep");
      return agent::run_agent(*file);
    };
  });
}

}  // namespace lockstep::cli
