#include <memory>
#include <string>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/follow.h"
#include "apps/run/origin.h"
#include "apps/run/plan_text.h"
#include "apps/run/run_display.h"
#include "apps/run/spec.h"
#include "apps/run/submit.h"
#include "apps/run/upload/send_folder.h"
#include "apps/shell/held_run.h"
#include "platform/api/json.h"

namespace lockstep::cli {
namespace {

struct RunCommandOptions {
  RunFlags flags;
  std::string request_id;
  bool upload = false;
  bool no_diff = false;
  bool detach = false;
  bool plan = false;
  bool debug = false;
  bool keep = false;
  std::string idle = kIdleDefault;
  bool json = false;
};

// The run of --debug has no command of its own.
Result<RunCommandOptions> with_hold_command(RunCommandOptions choice) {
  if (!choice.flags.arguments.empty())
    return Error{Code::invalid,
                 "--debug: it takes no command; type it in the shell that opens, or "
                 "leave --debug away"};
  TRY(duration_option("--idle", choice.idle));
  choice.flags.arguments = hold_command(choice.idle);
  choice.flags.as_is = true;
  return choice;
}

// The spec, with a message if this machine cannot check where the run is to start.
Result<model::RunSpec> spec_for_daemon(const RunCommandOptions& choice) {
  const bool is_remote = TRY(is_daemon_remote());
  auto [spec, reading] =
      TRY(spec_of(choice.flags, is_remote ? RunFiles::elsewhere : RunFiles::here));
  if (!reading.empty()) print_to_stderr("lockstep: " + reading);
  if (choice.debug) TRY(make_held_run(spec, "debug"));
  if (!is_remote || choice.debug) return std::move(spec);
  print_to_stderr(
      choice.upload
          ? format("lockstep: the daemon is on another machine: ranks start with the PATH of "
                   "there; whether {} exists there is not checked",
                   spec.command.front())
          : format("lockstep: the daemon is on another machine: ranks start in {} there, with the "
                   "PATH of there; whether this folder and {} exist there is not checked",
                   spec.working_folder, spec.command.front()));
  return std::move(spec);
}

Result<int> show_plan(const RunCommandOptions& choice) {
  const model::RunSpec spec = TRY(spec_for_daemon(choice));
  client::Client client = TRY(connect_to_daemon());
  const auto plan = TRY(client.call(
      api::kPlan,
      {.request = {.spec = spec, .origin = origin_of(spec.working_folder), .request_id = {}}}));
  print(choice.json ? dump_json(to_json(plan), Indent::two) : plan_text(plan, spec));
  return kDone;
}

// So that no folder is sent for a run that is refused. Not for the repetition of a submission: the
// run may exist, and may exclude another one like it.
Result<void> check_before_upload(client::Client& client, const RunCommandOptions& choice,
                                 const model::RunSpec& spec) {
  if (!choice.request_id.empty()) return {};
  TRY(client.call(
      api::kPlan,
      {.request = {.spec = spec, .origin = origin_of(spec.working_folder), .request_id = {}}}));
  return {};
}

// Only the daemon knows its engine. If it does not answer now, the submission says so.
void print_ignored_sections(client::Client& client, const model::RunSpec& spec) {
  if (model::ignored_sections(spec, "").empty()) return;
  const auto plan = client.call(
      api::kPlan,
      {.request = {.spec = spec, .origin = origin_of(spec.working_folder), .request_id = {}}});
  if (plan && plan->ignored) print_to_stderr("lockstep: " + ignored_text(*plan->ignored));
}

// The end of the shell is that of the run, unless the connection was lost.
Result<int> open_debug_shell(client::Client& client, const api::RunView& run, bool keep) {
  const model::RunId id = TRY(model::parse_run_id(run.id));
  const auto access = await_shell(client, id);
  if (!access) {
    if (auto stopped = stop_held_run(client, id); !stopped)
      print_to_stderr(stopped.error().message);
    return access.error();
  }
  print_to_stderr(format("lockstep: a shell of {}; {}", run.id,
                         keep ? "it stays until no shell is open for a while, or `lockstep stop`"
                              : "its exit ends the run"));
  const int code = TRY(run_in_terminal(ssh_command("ssh", *access, {access->alias})));
  if (code == kConnectionLost) {
    print_to_stderr(
        format("lockstep: the connection is lost, {0} goes on for a while: "
               "`lockstep ssh {0}` opens another shell, `lockstep stop {0}` ends it",
               run.id));
    return kFailed;
  }
  if (!keep) TRY(stop_held_run(client, id));
  return code;
}

Result<int> submit_and_follow(const RunCommandOptions& choice) {
  model::RunSpec spec = TRY(spec_for_daemon(choice));
  client::Client client = TRY(connect_to_daemon());
  if (choice.upload) {
    TRY(check_before_upload(client, choice, spec));
    spec.upload = TRY(send_folder(client, spec.working_folder));
  }
  print_ignored_sections(client, spec);
  // From here on the run may exist before this command knows its name.
  InterruptHandler interrupt(format("\nlockstep: {}", kInterrupted), kCancelled);
  const api::RunView run = TRY(submit(client, spec, choice.request_id));
  if (!choice.no_diff) keep_changes(client, run);
  if (choice.json) {
    print(dump_json(to_json(run), Indent::two));
    return kDone;
  }
  if (choice.debug && !choice.detach) {
    print_to_stderr(format("submitted {} on {}; Ctrl-C ends it", run.id, size_text(spec)));
    interrupt.set_message(format("\nlockstep: {0} goes on: `lockstep stop {0}` ends it", run.id),
                          kCancelled);
    return open_debug_shell(client, run, choice.keep);
  }
  return follow_submitted(client, run, interrupt,
                          choice.detach ? AfterSubmission::detach : AfterSubmission::follow);
}

void add_variables(CLI::App& command, RunFlags& flags) {
  command.add_option("--env", flags.env, "NAME=VALUE, or NAME for its value here; repeatable")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  command
      .add_option("--secret", flags.secrets,
                  "a variable, and the secret whose value it has; without =SECRET the secret of "
                  "the variable's name; repeatable")
      ->type_name("VARIABLE[=SECRET]")
      ->allow_extra_args(false);
}

// Parts of Lockstep in the place of those that the program names.
void add_replacements(CLI::App& command, RunFlags& flags) {
  command
      .add_option("--replace-backend", flags.replace_backend,
                  "programs that name this backend use lockstep: gloo, nccl or gloo,nccl")
      ->type_name("NAMES");
  command.add_flag("--wandb", flags.wandb,
                   "programs that import wandb get lockstep.wandb: no account, metrics of the run");
  command.add_flag("--horovod", flags.horovod,
                   "programs that import horovod.torch get lockstep.horovod.torch");
}

}  // namespace

// `lockstep run [options] -- PROGRAM ARGUMENTS` or `lockstep run run.yaml`.
void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "Run a program on one or more nodes and follow it");
  auto choice = std::make_shared<RunCommandOptions>();
  RunFlags& flags = choice->flags;
  command
      ->add_option("command", flags.arguments,
                   "after --: program and arguments; or run.yaml, or a job file of Slurm or "
                   "Kubernetes")
      ->type_name(kProgramValue);
  flags.spec.add_to(*command);
  add_variables(*command, flags);
  add_replacements(*command, flags);
  command->add_flag(
      "--as-is", flags.as_is,
      "start torchrun, horovodrun or a script for Slurm as a program: do not read it");
  command->add_flag("--upload", choice->upload,
                    "send the working folder to the daemon: each node starts in a copy of it");
  command->add_flag("--no-diff", choice->no_diff,
                    "do not keep the changes of the git working folder that are not committed");
  command
      ->add_option("--request-id", choice->request_id,
                   "names this submission: the same command with the same id makes no second run")
      ->type_name("ID");
  auto* plan = command->add_flag("--plan", choice->plan,
                                 "print where and when it would start, and submit nothing");
  auto* debug = command->add_flag(
      "--debug", choice->debug,
      "no command: hold the devices, class debug, and open a shell there, whose exit ends the run");
  command->add_flag("--keep", choice->keep, "with --debug: the exit of the shell does not end it")
      ->needs(debug);
  command
      ->add_option("--idle", choice->idle,
                   "with --debug: it ends when no shell was open for so long")
      ->type_name("DURATION")
      ->capture_default_str()
      ->needs(debug);
  command->add_flag("-d,--detach", choice->detach, "print the run's id and return at once")
      ->excludes(plan);
  command->add_flag("--json", choice->json, "print the submitted run as JSON and return at once");
  command->footer(
      "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR "
      "and\nMASTER_PORT as torchrun sets them, and LOCKSTEP_CHECKPOINT_DIR. A rank or node that is "
      "lost\ncosts no retry: the run continues by itself, at most three times.\n\n"
      "Examples:\n"
      "  lockstep run -n 2 -g 2 --timeout 30m -- python train.py --epochs 3\n"
      "  lockstep run --venv ~/venvs/train -- python train.py\n"
      "  lockstep run --upload -n 2 -- python train.py\n"
      "  lockstep run --debug -g 1\n"
      "  lockstep run run.yaml\n"
      "  lockstep run --plan train.sbatch\n"
      "  lockstep run -- torchrun --nnodes 2 --nproc-per-node 4 train.py\n"
      "  lockstep run -- horovodrun -np 4 python train.py\n\n"
      "run.yaml:\n"
      "  name: first\n"
      "  nodes: 2\n"
      "  devices: 2\n"
      "  timeout: 30m\n"
      "  command: [python, train.py, --epochs, \"3\"]");
  command->callback([&action, choice] {
    action = [choice]() -> Result<int> {
      if (choice->debug) *choice = TRY(with_hold_command(*choice));
      return choice->plan ? show_plan(*choice) : submit_and_follow(*choice);
    };
  });
}

}  // namespace lockstep::cli
