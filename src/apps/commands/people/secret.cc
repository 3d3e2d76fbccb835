#include <memory>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/login/hidden_input.h"
#include "apps/run/run_display.h"
#include "base/format.h"
#include "platform/api/json.h"
#include "platform/core/model/secret_name.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kSecretActions = "set|ls|rm";

struct SecretFlags {
  std::string action;
  std::string name, project;
  std::string file;
  bool json = false;
};

// Without --project: the one of a run that names none.
Result<std::string> project_of(client::Client& client, const SecretFlags& flags) {
  if (!flags.project.empty()) return flags.project;
  return TRY(client.call(api::kWhoAmI)).default_project;
}

Result<void> check_name(const SecretFlags& flags) {
  if (flags.name.empty())
    return Error{Code::invalid, format("secret {}: name the secret", flags.action)};
  return model::check_secret_name(flags.name);
}

std::string secrets_text(const api::SecretList& list, const std::string& project) {
  if (list.secrets.empty())
    return format("the project {} has no secrets; `lockstep secret set NAME --project {}` adds one",
                  project, project);
  Table table({"PROJECT", "SECRET", "SET BY", "SET"});
  for (const api::SecretView& secret : list.secrets)
    table.add({secret.project, secret.name, secret.set_by,
               text(std::chrono::floor<std::chrono::seconds>(secret.set))});
  return fit_to_terminal(table);
}

Result<int> list_secrets(const SecretFlags& flags) {
  if (!flags.name.empty())
    return Error{Code::invalid, "secret ls: lists all secrets of the project: leave out the name"};
  client::Client client = TRY(connect_to_daemon());
  const std::string project = TRY(project_of(client, flags));
  const auto list = TRY(client.call(api::kSecrets, {.path = client::Path::of({project})}));
  print(flags.json ? dump_json(to_json(list), Indent::two) : secrets_text(list, project));
  return kDone;
}

Result<int> set_secret(const SecretFlags& flags) {
  TRY(check_name(flags));
  client::Client client = TRY(connect_to_daemon());
  const std::string project = TRY(project_of(client, flags));
  const std::string value =
      TRY(file_or_hidden_line("--file", flags.file, format("The value of {}:", flags.name)));
  TRY(model::check_secret_value(value));
  const auto set =
      TRY(client.call(api::kSetSecret, {.path = client::Path::of({project, flags.name}),
                                        .request = {.value = value}}));
  print(flags.json ? dump_json(to_json(set), Indent::two)
                   : format("set the secret {} of the project {}; runs get it by `lockstep run "
                            "--secret VARIABLE={}`",
                            set.name, set.project, set.name));
  return kDone;
}

Result<int> remove_secret(const SecretFlags& flags) {
  TRY(check_name(flags));
  client::Client client = TRY(connect_to_daemon());
  const std::string project = TRY(project_of(client, flags));
  const auto list =
      TRY(client.call(api::kRemoveSecret, {.path = client::Path::of({project, flags.name})}));
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : format("removed the secret {} of the project {}; ranks that have it keep it",
                            flags.name, project));
  return kDone;
}

Result<int> act_on(const SecretFlags& flags) {
  if (flags.action == "ls") return list_secrets(flags);
  if (flags.action == "set") return set_secret(flags);
  if (flags.action == "rm") return remove_secret(flags);
  return Error{Code::invalid, format("secret: there is no action '{}': write one of {}",
                                     flags.action, kSecretActions)};
}

}  // namespace

// `lockstep secret set|ls|rm [NAME]`: values that the ranks of a project's runs have in variables.
void add_secret(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "secret", "Set, list or remove values that runs of a project get, such as keys");
  auto flags = std::make_shared<SecretFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kSecretActions);
  command->add_option("name", flags->name, "the secret's name")->type_name("NAME");
  command
      ->add_option("--project", flags->project,
                   "the project that has it (default: the one of your runs)")
      ->type_name("NAME");
  command
      ->add_option("--file", flags->file,
                   "set: the file with the value; - is standard input (default: ask for it)")
      ->type_name(kFileValue);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A value is text of at most 64 KiB. The last line break of a file is no part of it. Nothing "
      "shows a\nvalue again. Managers of the project set and remove secrets; its members use "
      "them.\n\n"
      "Examples:\n"
      "  lockstep secret set hf-token --file token.txt\n"
      "  lockstep run --secret HF_TOKEN=hf-token -- python train.py\n"
      "  lockstep secret ls --project speech");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
