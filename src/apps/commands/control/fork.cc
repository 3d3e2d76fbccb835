#include <memory>
#include <string>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/provenance/set_argument.h"
#include "apps/run/follow.h"
#include "apps/run/origin.h"
#include "apps/run/plan_text.h"
#include "apps/run/spec.h"
#include "apps/run/submit.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct ForkFlags {
  std::string run;
  RunFlags flags;
  std::vector<std::string> settings;
  std::string request_id;
  bool detach = false;
  bool plan = false;
  bool json = false;
};

Result<model::RunSpec> changed_spec(const ForkFlags& choice, const api::RunView& source) {
  model::RunSpec spec = TRY(forked_spec(choice.flags, source.spec));
  for (const std::string& setting : choice.settings)
    if (TRY(set_argument(setting, spec.command)) == ArgumentChange::added)
      print_to_stderr(format("lockstep: the command of {} does not set {}: {} is added at its end",
                             source.id, setting.substr(0, setting.find('=')), spec.command.back()));
  return spec;
}

// Values of env that are hidden from this command do not influence the plan.
Result<int> show_fork_plan(client::Client& client, const ForkFlags& choice,
                           const model::RunSpec& spec) {
  model::RunSpec planned = spec;
  planned.env.clear();
  const auto plan = TRY(client.call(
      api::kPlan,
      {.request = {.spec = planned, .origin = origin_of(spec.working_folder), .request_id = {}}}));
  print(choice.json ? dump_json(to_json(plan), Indent::two) : plan_text(plan, spec));
  return kDone;
}

Result<int> fork_run(const ForkFlags& choice) {
  const model::RunId source = TRY(run_argument(choice.run));
  client::Client client = TRY(connect_to_daemon());
  const model::RunSpec spec =
      TRY(changed_spec(choice, TRY(client.call(api::kRun, {.path = source}))));
  if (choice.plan) return show_fork_plan(client, choice, spec);
  InterruptHandler interrupt(format("\nlockstep: {}", kInterrupted), kCancelled);
  const api::RunView run = TRY(submit(client, spec, choice.request_id, source));
  keep_changes(client, run);
  if (choice.json) {
    print(dump_json(to_json(run), Indent::two));
    return kDone;
  }
  return follow_submitted(client, run, interrupt,
                          choice.detach ? AfterSubmission::detach : AfterSubmission::follow);
}

}  // namespace

// `lockstep fork RUN [--set KEY=VALUE] [options] [-- PROGRAM ARGUMENTS]`.
void add_fork(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("fork", "Run the specification of another run again, with changes");
  auto choice = std::make_shared<ForkFlags>();
  RunFlags& flags = choice->flags;
  add_run_argument(*command, choice->run);
  command->add_option("command", flags.arguments, "after --: another program and its arguments")
      ->type_name(kProgramValue);
  command
      ->add_option("--set", choice->settings,
                   "an argument of the program: replaces the value of --KEY or KEY=, or adds "
                   "--KEY=VALUE; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  flags.spec.add_to(*command);
  command->add_option("--env", flags.env, "NAME=VALUE, or NAME for its value here; repeatable")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  command
      ->add_option("--secret", flags.secrets,
                   "a variable, and the secret whose value it has; without =SECRET the secret of "
                   "the variable's name; repeatable")
      ->type_name("VARIABLE[=SECRET]")
      ->allow_extra_args(false);
  command
      ->add_option("--request-id", choice->request_id,
                   "names this submission: the same command with the same id makes no second run")
      ->type_name("ID");
  auto* plan = command->add_flag("--plan", choice->plan,
                                 "print where and when it would start, and submit nothing");
  command->add_flag("-d,--detach", choice->detach, "print the run's id and return at once")
      ->excludes(plan);
  command->add_flag("--json", choice->json, "print the submitted run as JSON and return at once");
  command->footer(
      "The new run has the command, the environment variables, the folder and the requests of the\n"
      "other one, where no option changes them, and a checkpoint folder of its own.\n\n"
      "Examples:\n"
      "  lockstep fork demo/42 --set lr=3e-4\n"
      "  lockstep fork demo/42 -n 4 --timeout 2h -d\n"
      "  lockstep fork demo/42 -- python evaluate.py");
  command->callback([&action, choice] { action = [choice] { return fork_run(*choice); }; });
}

}  // namespace lockstep::cli
