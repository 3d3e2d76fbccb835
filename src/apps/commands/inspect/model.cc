#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "base/format.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kModelActions = "register|ls|show|alias|rm";
constexpr std::string_view kOfRun = "default";  // the daemon takes the user's own project for it
constexpr std::string_view kCheckpointWord = "step-";

struct ModelFlags {
  std::string action;
  std::string subject, alias;
  std::string as, project, data, note;
  bool remove = false;
  bool json = false;
};

// "demo/gpt:3", "gpt@production" or "gpt".
struct ModelWords {
  std::string project, name;
  std::optional<std::int64_t> version{};
  std::optional<std::string> alias{};
};

Result<std::int64_t> number_of(std::string_view digits, std::string_view words) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error == std::errc() && end == digits.data() + digits.size() && number > 0) return number;
  return Error{Code::invalid, format("'{}': '{}' is no number above 0", words, digits)};
}

Result<ModelWords> model_words(const std::string& words) {
  ModelWords model;
  const auto slash = words.find('/');
  model.project = slash == std::string::npos ? std::string(kOfRun) : words.substr(0, slash);
  model.name = slash == std::string::npos ? words : words.substr(slash + 1);
  if (const auto at = model.name.find('@'); at != std::string::npos) {
    model.alias = model.name.substr(at + 1);
    model.name.resize(at);
  } else if (const auto colon = model.name.find(':'); colon != std::string::npos) {
    model.version = TRY(number_of(std::string_view(model.name).substr(colon + 1), words));
    model.name.resize(colon);
  }
  if (!model.name.empty() && !model.project.empty()) return model;
  return Error{Code::invalid, format("'{}' is no model: write gpt, gpt:3, gpt@production or "
                                     "demo/gpt",
                                     words)};
}

// "demo/42/step-1000", "42/plots/model.pt" or "demo/42".
struct SourceWords {
  model::RunId run;
  std::optional<std::int64_t> step{};
  std::optional<std::string> artifact{};
};

Result<SourceWords> source_words(const std::string& words) {
  const auto first = words.find('/');
  const bool is_number =
      first != std::string::npos && words.find_first_not_of("0123456789") == first;
  const auto end = is_number ? first : words.find('/', first == std::string::npos ? 0 : first + 1);
  SourceWords source{.run = TRY(run_argument(words.substr(0, end)))};
  if (end == std::string::npos) return source;
  const std::string rest = words.substr(end + 1);
  if (rest.starts_with(kCheckpointWord) &&
      rest.find_first_not_of("0123456789", kCheckpointWord.size()) == std::string::npos)
    source.step = TRY(number_of(std::string_view(rest).substr(kCheckpointWord.size()), words));
  else
    source.artifact = rest;
  return source;
}

std::string source_text(const api::ModelVersionView& version) {
  if (!version.run) return version.source.empty() ? "-" : version.source;
  if (version.step) return format("{}/step-{}", *version.run, *version.step);
  return version.path.empty() ? *version.run : format("{}/{}", *version.run, version.path);
}

std::string or_dash(const std::string& words) { return words.empty() ? "-" : words; }

std::string code_text(const api::ModelVersionView& version) {
  if (version.git_commit.empty()) return "-";
  return version.git_commit.substr(0, 12) + (version.git_dirty ? "+" : "");
}

std::string aliases_text(const std::map<std::string, std::int64_t>& aliases) {
  std::vector<std::string> words;
  for (const auto& [alias, version] : aliases) words.push_back(format("{}={}", alias, version));
  return or_dash(joined(words, ", "));
}

std::string versions_text(const api::ModelView& model) {
  Table table({"VERSION", "ALIASES", "SOURCE", "CODE", "DATA", "USER", "REGISTERED", "NOTE"});
  for (const api::ModelVersionView& version : model.versions)
    table.add({format("{}:{}", version.model, version.version),
               or_dash(joined(version.aliases, ", ")), source_text(version), code_text(version),
               or_dash(version.data_set), version.user, moment_text(version.created),
               or_dash(version.description)});
  return fit_to_terminal(table);
}

Result<int> list_models(const ModelFlags& flags) {
  if (!flags.subject.empty())
    return Error{Code::invalid, "model ls: takes no name; `lockstep model show NAME` shows one"};
  client::Client client = TRY(connect_to_daemon());
  api::ModelsQuery query{.limit = 1000};
  if (!flags.project.empty()) query.project = flags.project;
  const auto list = TRY(client.call(api::kModels, {.query = query}));
  if (flags.json) {
    print(dump_json(to_json(list), Indent::two));
    return kDone;
  }
  if (list.models.empty()) {
    print("no models; `lockstep model register RUN --as NAME` registers one");
    return kDone;
  }
  Table table({"MODEL", "NEWEST", "ALIASES", "USER", "CHANGED", "NOTE"});
  for (const api::ModelView& model : list.models)
    table.add({format("{}/{}", model.project, model.name), format("{}", model.last_version),
               aliases_text(model.aliases), model.user, moment_text(model.updated),
               or_dash(model.description)});
  print(fit_to_terminal(table));
  if (list.more) print_to_stderr("lockstep: there are more models; --project P selects");
  return kDone;
}

Result<int> show_model(const ModelFlags& flags) {
  const ModelWords words = TRY(model_words(flags.subject));
  client::Client client = TRY(connect_to_daemon());
  const auto model = TRY(client.call(
      api::kModel, {.path = client::Path::of({words.project, words.name}),
                    .query = {.version = words.version, .alias = words.alias, .limit = 1000}}));
  print(flags.json               ? dump_json(to_json(model), Indent::two)
        : model.versions.empty() ? format("{}/{} has no versions", model.project, model.name)
                                 : versions_text(model));
  if (model.more && !flags.json) print_to_stderr("lockstep: there are older versions");
  return kDone;
}

Result<int> register_model(const ModelFlags& flags) {
  if (flags.as.empty())
    return Error{Code::invalid, "model register: name the model: --as NAME or --as NAME:VERSION"};
  const SourceWords source = TRY(source_words(flags.subject));
  ModelWords words = TRY(model_words(flags.as));
  if (words.alias)
    return Error{Code::invalid,
                 "model register: --as takes a version, and `lockstep model alias` "
                 "sets an alias"};
  if (flags.as.find('/') == std::string::npos) words.project = source.run.project;
  api::RegisterModelRequest request{.run = text(source.run),
                                    .step = source.step,
                                    .artifact = source.artifact,
                                    .version = words.version};
  if (!flags.data.empty()) request.data_set = flags.data;
  if (!flags.note.empty()) request.description = flags.note;
  client::Client client = TRY(connect_to_daemon());
  const auto version =
      TRY(client.call(api::kRegisterModel,
                      {.path = client::Path::of({words.project, words.name}), .request = request}));
  print(flags.json ? dump_json(to_json(version), Indent::two)
                   : format("{} is {}/{}:{}", source_text(version), version.project, version.model,
                            version.version));
  return kDone;
}

Result<int> set_alias(const ModelFlags& flags) {
  const ModelWords words = TRY(model_words(flags.subject));
  if (flags.alias.empty())
    return Error{Code::invalid, "model alias: write the version and the alias: gpt:3 production"};
  if (words.alias || words.version.has_value() == flags.remove)
    return Error{Code::invalid, "model alias: write gpt:3 production, or --remove gpt production"};
  client::Client client = TRY(connect_to_daemon());
  const auto model = TRY(
      client.call(api::kModelAlias, {.path = client::Path::of({words.project, words.name}),
                                     .request = {.alias = flags.alias, .version = words.version}}));
  print(flags.json     ? dump_json(to_json(model), Indent::two)
        : flags.remove ? format("{}/{}@{} is removed", model.project, model.name, flags.alias)
                       : format("{0}/{1}@{2} is {0}/{1}:{3}", model.project, model.name,
                                flags.alias, *words.version));
  return kDone;
}

Result<int> remove_model(const ModelFlags& flags) {
  const ModelWords words = TRY(model_words(flags.subject));
  if (words.alias)
    return Error{Code::invalid, "model rm: name a version, such as gpt:3, or a model"};
  client::Client client = TRY(connect_to_daemon());
  const auto removed =
      TRY(client.call(api::kRemoveModel, {.path = client::Path::of({words.project, words.name}),
                                          .request = {.version = words.version}}));
  print(flags.json      ? dump_json(to_json(removed), Indent::two)
        : words.version ? format("removed {}/{}:{}; its files stay with its run", removed.project,
                                 removed.model, *words.version)
                        : format("removed {}/{}, versions: {}; their files stay with their runs",
                                 removed.project, removed.model, removed.versions));
  return kDone;
}

Result<int> act_on_model(const ModelFlags& flags) {
  if (flags.action == "ls") return list_models(flags);
  if (flags.action.empty() ||
      std::string_view(kModelActions).find(flags.action) == std::string_view::npos)
    return Error{Code::invalid, format("model: there is no action '{}': write one of {}",
                                       flags.action, kModelActions)};
  if (flags.subject.empty())
    return Error{Code::invalid, flags.action == "register"
                                    ? "model register: name a run, such as demo/42/step-1000"
                                    : format("model {}: name the model", flags.action)};
  if (flags.action == "register") return register_model(flags);
  if (flags.action == "show") return show_model(flags);
  if (flags.action == "alias") return set_alias(flags);
  if (flags.action == "rm") return remove_model(flags);
  return Error{Code::invalid, format("model: there is no action '{}': write one of {}",
                                     flags.action, kModelActions)};
}

}  // namespace

// `lockstep model register|ls|show|alias|rm`: names and versions of what runs made.
void add_model(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "model", "Register checkpoints and artifacts of runs as versions of models");
  auto flags = std::make_shared<ModelFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kModelActions);
  command
      ->add_option("subject", flags->subject,
                   "register: a checkpoint (demo/42/step-1000), an artifact (demo/42/model.pt) or "
                   "a run, for its newest checkpoint; else a model: gpt, gpt:3, gpt@production or "
                   "demo/gpt")
      ->type_name("WHAT");
  command->add_option("alias", flags->alias, "alias: the name that stands for the version")
      ->type_name("ALIAS");
  command
      ->add_option("--as", flags->as,
                   "register: the model, or the model and the version (default: the next one)")
      ->type_name("MODEL");
  command
      ->add_option("--data", flags->data,
                   "register: the data set (default: the run's tag `data`, or its MLflow inputs)")
      ->type_name("NAME");
  command->add_option("--note", flags->note, "register: a text about the version")
      ->type_name("TEXT");
  command->add_option("--project", flags->project, "ls: only the models of this project")
      ->type_name("NAME");
  command->add_flag("--remove", flags->remove, "alias: remove it");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A version keeps its run: `lockstep rm` refuses the run until the version is removed.\n\n"
      "Examples:\n"
      "  lockstep model register demo/42/step-1000 --as gpt:3\n"
      "  lockstep model alias gpt:3 production\n"
      "  lockstep model show gpt@production\n"
      "  lockstep model rm gpt:2");
  command->callback([&action, flags] { action = [flags] { return act_on_model(*flags); }; });
}

}  // namespace lockstep::cli
