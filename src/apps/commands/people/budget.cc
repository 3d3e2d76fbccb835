#include <cmath>
#include <memory>
#include <ranges>
#include <string>
#include <vector>

#include "apps/budget/budget_text.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/cli/time_option.h"
#include "apps/daemon/own_daemon.h"
#include "apps/people/people_text.h"
#include "platform/api/json.h"
#include "platform/core/budget/device_time.h"

namespace lockstep::cli {
namespace {

constexpr auto kBudgetActions = "show|grant|withdraw|move|lift|history|forecast|usage|rate";
constexpr int kHistoryMax = 10'000;

struct BudgetFlags {
  std::string action;
  std::vector<std::string> words;
  std::string until, since, reason, user;
  std::string by = "project";
  int limit = 100;
  bool csv = false;
  bool json = false;

  TextForm form() const { return csv ? TextForm::csv : TextForm::table; }
};

// The words behind each action, as its errors name them.
struct Words {
  std::string_view action, names;
  std::size_t least, most;
};
constexpr std::array kWords = {Words{"show", "[PROJECT]", 0, 1},
                               Words{"grant", "PROJECT MINUTES", 2, 2},
                               Words{"withdraw", "PROJECT MINUTES", 2, 2},
                               Words{"move", "PROJECT TO MINUTES", 3, 3},
                               Words{"lift", "PROJECT", 1, 1},
                               Words{"history", "PROJECT", 1, 1},
                               Words{"forecast", "[PROJECT]", 0, 1},
                               Words{"usage", "[PROJECT]", 0, 1},
                               Words{"rate", "KIND WEIGHT", 2, 2}};

Result<void> check_words(const BudgetFlags& flags) {
  const auto found = std::ranges::find(kWords, flags.action, &Words::action);
  if (found == kWords.end())
    return Error{Code::invalid, format("budget: there is no action '{}': write one of {}",
                                       flags.action, kBudgetActions)};
  if (flags.words.size() < found->least || flags.words.size() > found->most)
    return Error{Code::invalid,
                 format("budget {0}: write `lockstep budget {0} {1}`", flags.action, found->names)};
  if ((flags.action == "grant") == flags.until.empty() && flags.action != "usage")
    return Error{Code::invalid, flags.until.empty()
                                    ? "budget grant: --until is missing, such as --until 30d"
                                    : format("budget {}: takes no --until", flags.action)};
  return {};
}

Result<double> minutes_of(const std::string& words) {
  const auto amount = TRY(budget::parse_device_time(words));
  return in_seconds(amount) / 60;
}

std::string balance_text(const api::BudgetView& budget, const std::string& done) {
  return format("{}; {} has {} device-minutes available, and its runs hold {}", done,
                budget.project, minutes_text(budget.available_minutes),
                minutes_text(budget.held_minutes));
}

Result<int> say(const BudgetFlags& flags, const Result<api::BudgetView>& answer,
                const std::string& done) {
  const api::BudgetView budget = TRY(answer);
  print(flags.json ? dump_json(to_json(budget), Indent::two) : balance_text(budget, done));
  return kDone;
}

Result<int> grant(const BudgetFlags& flags) {
  api::GrantRequest request{.minutes = TRY(minutes_of(flags.words[1])),
                            .ends = TRY(future_time_option("--until", flags.until)),
                            .reason = flags.reason};
  client::Client client = TRY(connect_to_daemon());
  return say(flags,
             client.call(api::kGrantBudget,
                         {.path = client::Path::of_name(flags.words[0]), .request = request}),
             format("granted {} device-minutes to {} until {}", minutes_text(request.minutes),
                    flags.words[0], text(std::chrono::floor<std::chrono::seconds>(request.ends))));
}

Result<int> withdraw(const BudgetFlags& flags) {
  const double minutes = TRY(minutes_of(flags.words[1]));
  client::Client client = TRY(connect_to_daemon());
  return say(
      flags,
      client.call(api::kWithdrawBudget, {.path = client::Path::of_name(flags.words[0]),
                                         .request = {.minutes = minutes, .reason = flags.reason}}),
      format("withdrew {} device-minutes", minutes_text(minutes)));
}

Result<int> move(const BudgetFlags& flags) {
  const double minutes = TRY(minutes_of(flags.words[2]));
  client::Client client = TRY(connect_to_daemon());
  return say(
      flags,
      client.call(api::kMoveBudget,
                  {.path = client::Path::of_name(flags.words[0]),
                   .request = {.to = flags.words[1], .minutes = minutes, .reason = flags.reason}}),
      format("moved {} device-minutes to {}", minutes_text(minutes), flags.words[1]));
}

Result<int> lift(const BudgetFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  const auto answer =
      client.call(api::kLiftBudget, {.path = client::Path::of_name(flags.words[0])});
  const api::BudgetView budget = TRY(answer);
  print(flags.json ? dump_json(to_json(budget), Indent::two)
                   : format("runs of {} are limited by no budget any more", flags.words[0]));
  return kDone;
}

// Those of one project if the words name one.
Result<api::BudgetList> budgets(const BudgetFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  auto list = TRY(client.call(api::kBudgets));
  if (flags.words.empty()) return list;
  std::erase_if(list.budgets, [&](const auto& each) { return each.project != flags.words[0]; });
  std::erase_if(list.buckets, [&](const auto& each) { return each.project != flags.words[0]; });
  if (list.budgets.empty() && list.buckets.empty())
    return Error{Code::not_found, format("the project '{}' has no budget; `lockstep budget show` "
                                         "lists those that have one",
                                         flags.words[0])};
  return list;
}

Result<int> show(const BudgetFlags& flags) {
  const auto list = TRY(budgets(flags));
  print(flags.json                   ? dump_json(to_json(list), Indent::two)
        : flags.action == "forecast" ? forecast_text(list)
                                     : budgets_text(list));
  return kDone;
}

Result<int> history(const BudgetFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kPostings, {.path = client::Path::of_name(flags.words[0]),
                                                     .query = {.limit = flags.limit}}));
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : postings_text(list, flags.words[0], flags.form()));
  if (list.more && !flags.json)
    print_to_stderr("lockstep: there are older postings; --limit N shows more");
  return kDone;
}

Result<int> usage(const BudgetFlags& flags) {
  api::UsageQuery query{.by = flags.by};
  if (!flags.words.empty()) query.project = flags.words[0];
  if (!flags.user.empty()) query.user = flags.user;
  if (!flags.since.empty()) query.since = TRY(past_time_option("--since", flags.since));
  if (!flags.until.empty()) query.until = TRY(past_time_option("--until", flags.until));
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kUsage, {.query = query}));
  std::vector<std::string> columns;
  for (const auto word : std::views::split(flags.by, ','))
    columns.emplace_back(word.begin(), word.end());
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : usage_text(list, columns, flags.form()));
  return kDone;
}

Result<int> set_rate(const BudgetFlags& flags) {
  char* end = nullptr;
  const double weight = std::strtod(flags.words[1].c_str(), &end);
  if (end == flags.words[1].c_str() || *end != '\0' || !std::isfinite(weight))
    return Error{Code::invalid,
                 format("budget rate: '{}' is no weight such as 4 or 0.5", flags.words[1])};
  client::Client client = TRY(connect_to_daemon());
  const auto list =
      TRY(client.call(api::kSetRate, {.request = {.kind = flags.words[0], .weight = weight}}));
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : format("a device of kind {} counts {} times from the next start or renewal "
                            "of a run on",
                            flags.words[0], weight));
  return kDone;
}

Result<int> act_on(const BudgetFlags& flags) {
  TRY(check_words(flags));
  if (flags.action == "grant") return grant(flags);
  if (flags.action == "withdraw") return withdraw(flags);
  if (flags.action == "move") return move(flags);
  if (flags.action == "lift") return lift(flags);
  if (flags.action == "history") return history(flags);
  if (flags.action == "usage") return usage(flags);
  if (flags.action == "rate") return set_rate(flags);
  return show(flags);
}

}  // namespace

// `lockstep budget show|grant|withdraw|move|lift|history|forecast|usage|rate [WORDS]`.
void add_budget(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "budget", "Give projects device-minutes, and show what was used and what is left");
  auto flags = std::make_shared<BudgetFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kBudgetActions);
  command->add_option("words", flags->words, "what it is about; see below")->type_name("WORD");
  command
      ->add_option(
          "--until", flags->until,
          "grant: when what is left expires, such as 30d or 2027-01-01; usage: only before "
          "this time")
      ->type_name("TIME");
  command->add_option("--since", flags->since, "usage: only from this time on, such as 30d")
      ->type_name("TIME");
  command
      ->add_option("--by", flags->by,
                   "usage: the columns, of project, user, month and kind, with commas")
      ->type_name("COLUMNS")
      ->capture_default_str();
  command->add_option("--user", flags->user, "usage: only runs of this user")->type_name("USER");
  command->add_option("--reason", flags->reason, "grant, withdraw, move: for the history")
      ->type_name("TEXT");
  command->add_option("--limit", flags->limit, "history: the greatest number of postings")
      ->type_name("N")
      ->check(whole_number(1, kHistoryMax))
      ->capture_default_str();
  command->add_flag("--csv", flags->csv, "history, usage: print CSV");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "  show [PROJECT]              what projects have available, hold and have spent\n"
      "  grant PROJECT MINUTES       give device-minutes until a date; 8h are 480\n"
      "  withdraw PROJECT MINUTES    take back what no run holds\n"
      "  move PROJECT TO MINUTES     give some of a project to another one\n"
      "  lift PROJECT                withdraw all; its runs are limited no more\n"
      "  history PROJECT             each movement, newest first\n"
      "  forecast [PROJECT]          when it runs out, by the use of the last 7 days\n"
      "  usage [PROJECT]             what was used, by project, user, month or kind of device\n"
      "  rate KIND WEIGHT            what a minute of such a device counts\n\n"
      "A project without a grant is not limited. Admins grant and withdraw, managers move.\n\n"
      "Examples:\n"
      "  lockstep budget grant speech 10000 --until 2027-01-01\n"
      "  lockstep budget usage --by user,month --since 90d --csv");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
