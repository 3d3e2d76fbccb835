#include <charconv>
#include <chrono>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/login/hidden_input.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "base/format.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kNoticeActions = "add|ls|rm|test";
constexpr auto kNoticeKinds = "webhook, mail or command";
constexpr Duration kTestLimit = std::chrono::seconds(45);  // above that of the daemon

struct NoticeFlags {
  std::string action;
  std::vector<std::string> words;
  std::string project;
  std::string on;
  bool own = false, all = false, slack = false, json = false;
};

Result<notice::TargetKind> kind_of(const NoticeFlags& flags) {
  const std::string& kind = flags.words[0];
  if (kind == "webhook")
    return flags.slack ? notice::TargetKind::slack : notice::TargetKind::webhook;
  if (flags.slack) return Error{Code::invalid, "--slack is for a webhook"};
  if (kind == "mail") return notice::TargetKind::mail;
  if (kind == "command") return notice::TargetKind::command;
  return Error{Code::invalid,
               format("notice add: there is no kind '{}': write {}", kind, kNoticeKinds)};
}

Result<std::vector<notice::Cause>> read_causes(const std::string& on) {
  std::vector<notice::Cause> causes;
  for (const auto part : std::views::split(on, ',')) {
    auto cause = parse_name<notice::Cause>(std::string_view(part.begin(), part.end()));
    if (!cause) return std::move(cause).error().with_context("--on");
    causes.push_back(*cause);
  }
  return causes;
}

Result<api::AddNoticeTargetRequest> request_of(const NoticeFlags& flags) {
  if (flags.words.size() != 2)
    return Error{Code::invalid,
                 "notice add: write what to add and where it is, such as "
                 "`lockstep notice add webhook URL`"};
  if (flags.all && (flags.own || !flags.project.empty()))
    return Error{Code::invalid,
                 "--all is for all runs of all projects: leave out --own and "
                 "--project"};
  api::AddNoticeTargetRequest request{.kind = TRY(kind_of(flags)), .where = flags.words[1]};
  if (flags.all) request.scope = notice::Scope::all;
  if (flags.own) request.scope = notice::Scope::own;
  if (!flags.project.empty()) request.project = flags.project;
  if (!flags.on.empty()) request.on = TRY(read_causes(flags.on));
  if (request.where == "-")
    request.where = TRY(file_or_hidden_line("URL", "-", "The URL of the webhook:"));
  return request;
}

std::string scope_text(const api::NoticeTargetView& target) {
  if (target.scope == notice::Scope::all) return "all projects";
  if (target.scope == notice::Scope::project) return target.project;
  return target.project.empty() ? format("runs of {}", target.user)
                                : format("runs of {} in {}", target.user, target.project);
}

std::string causes_text(const api::NoticeTargetView& target) {
  std::vector<std::string> names;
  for (const notice::Cause cause : target.on) names.emplace_back(name_of(cause));
  return joined(names, ",");
}

std::string target_text(const api::NoticeTargetView& target) {
  return format("{} {} gets notices on {} of {}", name_of(target.kind), target.to,
                causes_text(target), scope_text(target));
}

// The state of what the target got and is to get.
std::string state_text(const api::NoticeTargetView& target) {
  if (!target.problem.empty()) return target.problem;
  if (!target.delivered) return "nothing yet";
  return "delivered " + text(std::chrono::floor<std::chrono::seconds>(*target.delivered));
}

std::string targets_text(const api::NoticeTargetList& list) {
  if (list.targets.empty())
    return "no target of notices is yours; `lockstep notice add webhook URL` adds one";
  Table table({"ID", "KIND", "TO", "FOR", "ON", "BY", "WAITING", "DROPPED", "LAST TRY"});
  for (const api::NoticeTargetView& target : list.targets)
    table.add({format("{}", target.id), std::string(name_of(target.kind)), target.to,
               scope_text(target), causes_text(target), target.user, format("{}", target.waiting),
               format("{}", target.dropped), state_text(target)});
  return fit_to_terminal(table);
}

Result<client::Path> target_argument(const NoticeFlags& flags) {
  if (flags.words.size() != 1)
    return Error{Code::invalid, format("notice {}: name one target by its ID, which `lockstep "
                                       "notice ls` shows",
                                       flags.action)};
  const std::string& id = flags.words[0];
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (failed == std::errc() && end == id.data() + id.size() && number > 0)
    return client::Path::of({id});
  return Error{Code::invalid, format("notice {}: '{}' is no ID, such as 1", flags.action, id)};
}

Result<int> add_target(const NoticeFlags& flags) {
  const auto request = TRY(request_of(flags));
  client::Client client = TRY(connect_to_daemon());
  const auto added = TRY(client.call(api::kAddNotice, {.request = request}));
  print(flags.json ? dump_json(to_json(added), Indent::two)
                   : format("{}: {}; `lockstep notice test {}` sends one", added.id,
                            target_text(added), added.id));
  return kDone;
}

Result<int> list_targets(const NoticeFlags& flags) {
  if (!flags.words.empty())
    return Error{Code::invalid, "notice ls: it lists all targets: leave out the word behind it"};
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kNotices));
  print(flags.json ? dump_json(to_json(list), Indent::two) : targets_text(list));
  return kDone;
}

Result<int> remove_target(const NoticeFlags& flags) {
  const client::Path path = TRY(target_argument(flags));
  client::Client client = TRY(connect_to_daemon());
  const auto left = TRY(client.call(api::kRemoveNotice, {.path = path}));
  print(flags.json ? dump_json(to_json(left), Indent::two)
                   : format("removed the target {}", flags.words[0]));
  return kDone;
}

Result<int> test_target(const NoticeFlags& flags) {
  const client::Path path = TRY(target_argument(flags));
  client::Client client = TRY(connect_to_daemon());
  const auto tested =
      TRY(client.call(api::kTestNotice, {.path = path}, Deadline::after(kTestLimit)));
  if (flags.json)
    print(dump_json(to_json(tested), Indent::two));
  else if (tested.delivered)
    print(tested.answer);
  else
    print_to_stderr(format("lockstep: target {}: {}", flags.words[0], tested.answer));
  return tested.delivered ? kDone : kFailed;
}

Result<int> act_on_notices(const NoticeFlags& flags) {
  if (flags.action == "add") return add_target(flags);
  if (flags.action == "ls") return list_targets(flags);
  if (flags.action == "rm") return remove_target(flags);
  if (flags.action == "test") return test_target(flags);
  return Error{Code::invalid, format("notice: there is no action '{}': write one of {}",
                                     flags.action, kNoticeActions)};
}

}  // namespace

// `lockstep notice add|ls|rm|test`: where the daemon tells of ends of runs, failures and budgets.
void add_notice(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "notice", "Have a webhook, a mail or a command told of failed runs and low budgets");
  auto flags = std::make_shared<NoticeFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kNoticeActions);
  command
      ->add_option("word", flags->words,
                   "add: webhook URL, mail ADDRESS or command NAME; rm and test: an ID")
      ->type_name("WORD");
  command
      ->add_option("--on", flags->on,
                   "add: what it is told, of ended, failed, budget and finding (default: "
                   "failed,budget,finding)")
      ->type_name("LIST");
  command
      ->add_option("--project", flags->project,
                   "add: for all runs and the budget of this project (default: for your own runs)")
      ->type_name("NAME");
  command->add_flag("--own", flags->own, "add, with --project: only for your own runs in it");
  command->add_flag("--all", flags->all, "add: for all projects");
  command->add_flag("--slack", flags->slack, "add: the webhook takes messages of Slack");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "The URL of a webhook is a secret: nothing shows more than its host. As - it is read from "
      "standard\ninput. Managers add targets for their project, administrators for all and "
      "commands.\n\n"
      "Examples:\n"
      "  lockstep notice add webhook https://example.com/lockstep --on ended\n"
      "  lockstep notice add mail ann@example.com --project speech\n"
      "  lockstep notice test 1");
  command->callback([&action, flags] { action = [flags] { return act_on_notices(*flags); }; });
}

}  // namespace lockstep::cli
