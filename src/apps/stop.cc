#include "apps/command.h"

namespace lockstep {

// `lockstep stop RUN...`: signal, grace period, kill; returns at once.
void add_stop(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("stop", "Stop runs: SIGTERM, then SIGKILL after a grace period");
  auto runs = std::make_shared<std::vector<std::string>>();
  auto reason = std::make_shared<std::string>();
  command->add_option("run", *runs, "runs, such as demo/42 (42 alone: in project `default`)")
      ->required();
  command->add_option("--reason", *reason, "shown with the run");
  command->callback([&action, runs, reason] {
    action = [runs, reason]() -> Result<int> {
      Client client = TRY(connect());
      for (const std::string& words : *runs) {
        api::RunView run = TRY(client.stop(TRY(run_argument(words)), {.reason = *reason}));
        print(format("{} {}", run.id, run.state == RunState::cancelled ? "cancelled" : "stopping"));
      }
      return kDone;
    };
  });
}

}  // namespace lockstep
