#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/people/people_text.h"
#include "apps/run/run_display.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kTokenActions = "ls|create|revoke";

struct TokenFlags {
  std::string action;
  std::vector<std::string> ids;
  std::string name, user, project, role, expires;
  bool json = false;
};

std::string end_text(const api::TokenView& token) {
  if (token.ended) return "ended";
  return token.ends ? text(std::chrono::floor<std::chrono::seconds>(*token.ends)) : "never";
}

std::string tokens_text(const api::TokenList& list) {
  if (list.tokens.empty()) return "no tokens; `lockstep token create` makes one";
  const Time now = SystemClock().now();
  Table table({"ID", "USER", "NAME", "PROJECT", "ROLE", "ENDS", "USED"});
  for (const api::TokenView& token : list.tokens)
    table.add({token.id, token.user, token.name.empty() ? "-" : token.name,
               token.project.empty() ? "all" : token.project,
               token.role ? std::string(name_of(*token.role)) : "all", end_text(token),
               token.last_used ? age(*token.last_used, now) : "never"});
  return fit_to_terminal(table);
}

Result<int> list_tokens(const TokenFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  api::TokensQuery query;
  if (!flags.user.empty()) query.user = flags.user;
  const auto list = TRY(client.call(api::kTokens, {.query = query}));
  print(flags.json ? dump_json(to_json(list), Indent::two) : tokens_text(list));
  return kDone;
}

// The token alone is on standard output, so that a file can take it.
Result<int> create_token(const TokenFlags& flags) {
  api::AddTokenRequest request{.name = flags.name,
                               .user = std::nullopt,
                               .project = flags.project,
                               .role = TRY(role_option(flags.role)),
                               .expires = std::nullopt};
  if (!flags.user.empty()) request.user = flags.user;
  if (!flags.expires.empty()) request.expires = TRY(duration_option("--expires", flags.expires));
  client::Client client = TRY(connect_to_daemon());
  const auto made = TRY(client.call(api::kAddToken, {.request = request}));
  if (flags.json) {
    print(dump_json(to_json(made), Indent::two));
    return kDone;
  }
  print(made.token);
  print_to_stderr(
      format("This is the token of {}, and it is shown only once. `lockstep token "
             "revoke {}` revokes it.",
             made.about.user, made.about.id));
  return kDone;
}

Result<int> revoke_tokens(const TokenFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& id : flags.ids) {
    const auto token = TRY(client.call(api::kRevokeToken, {.path = client::Path::of_name(id)}));
    print(flags.json ? dump_json(to_json(token), Indent::two)
                     : format("revoked the token {} of {}", id, token.user));
  }
  return kDone;
}

Result<void> check_token_flags(const TokenFlags& flags) {
  if (!is_action(kTokenActions, flags.action))
    return Error{Code::invalid, format("token: there is no action \'{}\': write one of {}",
                                       flags.action, kTokenActions)};
  const bool creates = flags.action == "create";
  const bool has_bounds = !flags.name.empty() || !flags.project.empty() || !flags.role.empty() ||
                          !flags.expires.empty();
  if (!creates && has_bounds)
    return Error{Code::invalid, format("token {}: --name, --project, --role and --expires are for "
                                       "create",
                                       flags.action)};
  if (flags.action == "revoke" && flags.ids.empty())
    return Error{Code::invalid,
                 "token revoke: name a token by its id; `lockstep token ls` lists them"};
  if (flags.action != "revoke" && !flags.ids.empty())
    return Error{Code::invalid, format("token {}: takes no id", flags.action)};
  return {};
}

Result<int> act_on(const TokenFlags& flags) {
  TRY(check_token_flags(flags));
  if (flags.action == "create") return create_token(flags);
  if (flags.action == "revoke") return revoke_tokens(flags);
  return list_tokens(flags);
}

}  // namespace

// `lockstep token ls|create|revoke [ID...]`.
void add_token(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("token", "Create, list and revoke tokens for programs");
  auto flags = std::make_shared<TokenFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kTokenActions);
  command->add_option("id", flags->ids, "of revoke: tokens by their ids")->type_name("ID");
  command
      ->add_option("--user", flags->user,
                   "of ls and create: whose, if not yours: a service account of a project that you "
                   "manage, or for admins any user")
      ->type_name("USER");
  command->add_option("--name", flags->name, "of create: words to know it by")->type_name("TEXT");
  command
      ->add_option("--project", flags->project,
                   "of create: it gives rights in this project only (all of the user's)")
      ->type_name("PROJECT");
  command
      ->add_option("--role", flags->role, "of create: the highest role that it gives (the user's)")
      ->type_name(kRoles);
  command->add_option("--expires", flags->expires, "of create: it ends after this time (never)")
      ->type_name("DURATION");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A token never gives more rights than its user has at the time of the call. create prints it "
      "once;\nthe daemon keeps only a hash.\n\n"
      "Examples:\n"
      "  lockstep token ls\n"
      "  lockstep token create --user ci --expires 30d > token\n"
      "  lockstep token create --project demo --role viewer");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
