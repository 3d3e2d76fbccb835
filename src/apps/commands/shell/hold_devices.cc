#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/processes.h"

namespace lockstep::cli {
namespace {

constexpr Duration kCheckInterval = std::chrono::seconds(1);

std::string program_of(pid_t pid) {
  std::ifstream file(format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

// The agent, whose child this is, has an sshd for each connection.
bool has_shell(pid_t agent) {
  return std::ranges::any_of(processes_of_user(), [agent](const Process& process) {
    return process.parent == agent && process.state != 'Z' && program_of(process.pid) == "sshd";
  });
}

Result<int> hold(const std::string& idle) {
  const Duration limit = TRY(duration_option("--idle", idle));
  const pid_t agent = ::getppid();
  print(format("holds the devices until no shell was open for {}", text(limit)));
  auto end = Deadline::after(limit);
  while (!end.passed()) {
    ::usleep(static_cast<useconds_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(kCheckInterval).count()));
    if (has_shell(agent)) end = Deadline::after(limit);
  }
  print(format("no shell was open for {}", text(limit)));
  return kDone;
}

}  // namespace

// `lockstep hold-devices`: the command of the ranks of `lockstep run --debug`.
void add_hold_devices(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("hold-devices", "Wait while shells are open (run --debug calls this)");
  command->group("");
  auto idle = std::make_shared<std::string>("10m");
  command->add_option("--idle", *idle, "ends when no shell was open for so long")
      ->type_name("DURATION");
  command->callback([&action, idle] { action = [idle] { return hold(*idle); }; });
}

}  // namespace lockstep::cli
