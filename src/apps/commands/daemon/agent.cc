#include "platform/agent/agent.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <sys/prctl.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/external/attach.h"
#include "base/os/program_copy.h"

namespace lockstep::cli {
namespace {

struct AgentFlags {
  std::string launch_file, address, make_folder, copy_to;
  bool prints_log = false;
  bool attach = false;
};

Result<int> run(const AgentFlags& flags) {
  if (!flags.copy_to.empty()) {
    TRY(copy_own_installation(flags.copy_to));
    return kDone;
  }
  if (flags.attach) return attach_rank();
  if (flags.launch_file.empty())
    return Error{Code::invalid, "name the launch file of the node, or --copy-to FOLDER"};
  // Executed through /proc/self/exe, it would be called "exe" in lists of processes.
  ::prctl(PR_SET_NAME, "lockstep");
  const int code = TRY(agent::run_agent(flags.launch_file, {.address = flags.address,
                                                            .make_folder = flags.make_folder,
                                                            .prints_log = flags.prints_log}));
  // A thread may be in a driver's library, whose destructors must not run meanwhile.
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

// `lockstep agent LAUNCH_FILE`: started by engines and by ranks of other launchers, not by people.
void add_agent(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("agent", "Run one node of an attempt (engines call this)");
  command->group("");
  auto flags = std::make_shared<AgentFlags>();
  command->add_option("launch_file", flags->launch_file, "the node's launch.json")
      ->type_name(kFileValue);
  command->add_option("--address", flags->address, "where other nodes reach this one");
  command->add_option("--make-folder", flags->make_folder, "a folder to make for the ranks")
      ->type_name(kFolderValue);
  command->add_flag("--print-log", flags->prints_log, "print the agent's log, too");
  command
      ->add_option("--copy-to", flags->copy_to,
                   "copy this program and its libraries to a folder, and end")
      ->type_name(kFileValue);
  command->add_flag("--attach", flags->attach,
                    "find the agent of the job whose rank has started this, or become it");
  command->callback([&action, flags] { action = [flags] { return run(*flags); }; });
}

}  // namespace lockstep::cli
