#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/login/hidden_input.h"
#include "apps/people/people_text.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kUserActions = "ls|add|rm|disable|enable|admin|passwd|link";
constexpr Duration kHashWait = std::chrono::seconds(60);

struct UserFlags {
  std::string action;
  std::vector<std::string> names;
  bool admin = false;
  bool revoke = false;
  bool password = false;      // a random one
  std::string password_file;  // empty: none
  bool json = false;
};

std::string kind_text(const api::UserView& user) {
  if (!user.project.empty()) return "service of " + user.project;
  return user.admin ? "admin" : "person";
}

std::string users_text(const api::UserList& list) {
  Table table({"USER", "KIND", "STATE", "TOKENS", "PROJECTS"});
  for (const api::UserView& user : list.users)
    table.add({user.name, kind_text(user), user.disabled ? "disabled" : "enabled",
               format("{}", user.tokens), roles_text(user.projects)});
  return fit_to_terminal(table);
}

// One change of each user that the command names.
Result<int> change(const UserFlags& flags, const api::ChangeUserRequest& request,
                   std::string_view done) {
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& name : flags.names) {
    const auto user = TRY(
        client.call(api::kChangeUser, {.path = client::Path::of_name(name), .request = request}));
    print(flags.json ? dump_json(to_json(user), Indent::two) : format("{} {}", name, done));
  }
  return kDone;
}

// A password for one log-in. Without a file it is random, and printed this once.
Result<void> give_first_password(client::Client& client, const std::string& name,
                                 const UserFlags& flags) {
  api::FirstPasswordRequest request;
  if (!flags.password_file.empty())
    request.password = TRY(file_or_hidden_line("--password-file", flags.password_file, ""));
  const auto given = TRY(client.call(api::kFirstPassword,
                                     {.path = client::Path::of_name(name), .request = request},
                                     Deadline::after(kHashWait)));
  if (flags.json)
    print(dump_json(to_json(given), Indent::two));
  else if (given.password.empty())
    print(format("{} can log in once by the password of {}, and chooses another one then", name,
                 flags.password_file));
  else
    print(format("{} can log in once by the password {} and chooses another one then", name,
                 given.password));
  return {};
}

Result<int> give_first_passwords(const UserFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& name : flags.names) TRY(give_first_password(client, name, flags));
  return kDone;
}

// `user link NAME SUBJECT`.
Result<int> link_user(const UserFlags& flags) {
  if (flags.names.size() != (flags.revoke ? 1u : 2u))
    return Error{Code::invalid,
                 "user link: name the user and its subject at the issuer, or the user and "
                 "--revoke"};
  client::Client client = TRY(connect_to_daemon());
  const std::string& name = flags.names[0];
  const std::string subject = flags.revoke ? "" : flags.names[1];
  const auto user = TRY(client.call(
      api::kLinkUser, {.path = client::Path::of_name(name), .request = {.subject = subject}}));
  if (flags.json)
    print(dump_json(to_json(user), Indent::two));
  else
    print(flags.revoke ? format("{} does not log in at the issuer any more", name)
                       : format("{} logs in at the issuer as {}", name, subject));
  return kDone;
}

Result<int> add_users(const UserFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& name : flags.names) {
    const auto user =
        TRY(client.call(api::kAddUser, {.request = {.name = name, .admin = flags.admin}}));
    print(flags.json ? dump_json(to_json(user), Indent::two)
                     : format("added {0} with its project {0}; `lockstep token create --user {0}` "
                              "makes a token for it",
                              name));
    if (flags.password || !flags.password_file.empty())
      TRY(give_first_password(client, name, flags));
  }
  return kDone;
}

Result<int> remove_users(const UserFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  api::UserList list;
  for (const std::string& name : flags.names) {
    list = TRY(client.call(api::kRemoveUser, {.path = client::Path::of_name(name)}));
    if (!flags.json)
      print(format("removed {} with its tokens; its runs stay, and its name is not given again",
                   name));
  }
  if (flags.json) print(dump_json(to_json(list), Indent::two));
  return kDone;
}

Result<int> list_users(bool json) {
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kUsers));
  print(json ? dump_json(to_json(list), Indent::two) : users_text(list));
  return kDone;
}

Result<void> check_user_flags(const UserFlags& flags) {
  if (!is_action(kUserActions, flags.action))
    return Error{Code::invalid, format("user: there is no action \'{}\': write one of {}",
                                       flags.action, kUserActions)};
  if (flags.admin && flags.action != "add")
    return Error{Code::invalid, format("user {}: --admin is for add; `lockstep user admin NAME` "
                                       "makes a user an admin",
                                       flags.action)};
  if (flags.revoke && flags.action != "admin" && flags.action != "link")
    return Error{Code::invalid, format("user {}: --revoke is for admin and link", flags.action)};
  if (flags.password && flags.action != "add")
    return Error{Code::invalid, format("user {}: --password is for add; `lockstep user passwd "
                                       "NAME` is for a user that exists",
                                       flags.action)};
  if (!flags.password_file.empty() && flags.action != "add" && flags.action != "passwd")
    return Error{Code::invalid,
                 format("user {}: --password-file is for add and passwd", flags.action)};
  if (flags.action == "ls" && !flags.names.empty())
    return Error{Code::invalid, "user ls: lists all of them: leave out the name"};
  if (flags.action != "ls" && flags.names.empty())
    return Error{Code::invalid, format("user {}: name a user", flags.action)};
  return {};
}

Result<int> act_on(const UserFlags& flags) {
  TRY(check_user_flags(flags));
  if (flags.action == "add") return add_users(flags);
  if (flags.action == "rm") return remove_users(flags);
  if (flags.action == "passwd") return give_first_passwords(flags);
  if (flags.action == "link") return link_user(flags);
  if (flags.action == "disable")
    return change(flags, {.admin = std::nullopt, .disabled = true},
                  "is disabled: its tokens and "
                  "log-ins are refused");
  if (flags.action == "enable")
    return change(flags, {.admin = std::nullopt, .disabled = false}, "is enabled");
  if (flags.action == "admin")
    return change(flags, {.admin = !flags.revoke, .disabled = std::nullopt},
                  flags.revoke ? "is no admin any more" : "is an admin");
  return list_users(flags.json);
}

}  // namespace

// `lockstep user ls|add|rm|disable|enable|admin|passwd|link [NAME...]`.
void add_user(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("user", "List, add, remove and disable users, for admins");
  auto flags = std::make_shared<UserFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kUserActions);
  command->add_option("name", flags->names, "users by their names; of link: NAME SUBJECT")
      ->type_name("NAME");
  command->add_flag("--admin", flags->admin, "of add: may do everything");
  command->add_flag("--revoke", flags->revoke,
                    "of admin and link: is an admin, or logs in at the issuer, no longer");
  auto* random = command->add_flag(
      "--password", flags->password,
      "of add: print a random password for one log-in, at which the user chooses another");
  command
      ->add_option("--password-file", flags->password_file,
                   "of add and passwd: the file with such a password; - is standard input")
      ->type_name(kFileValue)
      ->excludes(random);
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A name has 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit. Each user has a "
      "project of\nits own name. disable: its tokens and log-ins are refused until enable. rm: for "
      "good; runs and the\naudit keep the name. passwd: a password for one log-in, random without "
      "--password-file. link: the\nuser logs in at the issuer of OIDC as SUBJECT.\n\n"
      "Examples:\n"
      "  lockstep user ls\n"
      "  lockstep user add ann bob\n"
      "  lockstep user add carla --password\n"
      "  lockstep user admin ann");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
