#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/people/people_text.h"
#include "apps/run/run_display.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr auto kProjectActions = "ls|add|rm|member|service";

struct ProjectFlags {
  std::string action, project;
  std::vector<std::string> users;
  std::string role;
  bool remove = false;
  bool json = false;
};

std::string members_text(const api::ProjectView& project) {
  std::vector<std::string> all;
  for (const api::MemberView& member : project.members)
    all.push_back(format("{} ({})", member.user, name_of(member.role)));
  return all.empty() ? "-" : joined(all, ", ");
}

std::string projects_text(const api::ProjectList& list) {
  if (list.projects.empty()) return "there is no project that you may read";
  Table table({"PROJECT", "OWNER", "MEMBERS"});
  for (const api::ProjectView& project : list.projects)
    table.add({project.name, project.owner.empty() ? "-" : project.owner, members_text(project)});
  return fit_to_terminal(table);
}

Result<int> list_projects(bool json) {
  client::Client client = TRY(connect_to_daemon());
  const auto list = TRY(client.call(api::kProjects));
  print(json ? dump_json(to_json(list), Indent::two) : projects_text(list));
  return kDone;
}

Result<int> add_or_remove(const ProjectFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  if (flags.action == "add") {
    const auto project = TRY(client.call(api::kAddProject, {.request = {.name = flags.project}}));
    print(flags.json ? dump_json(to_json(project), Indent::two)
                     : format("added the project {0}; `lockstep project member {0} USER` makes "
                              "users members",
                              flags.project));
    return kDone;
  }
  const auto list =
      TRY(client.call(api::kRemoveProject, {.path = client::Path::of_name(flags.project)}));
  print(flags.json ? dump_json(to_json(list), Indent::two)
                   : format("removed the project {}; its runs stay, for admins", flags.project));
  return kDone;
}

Result<int> set_members(const ProjectFlags& flags) {
  const auto role = TRY(role_option(flags.role));
  api::MemberRequest request;
  if (!flags.remove) request.role = role.value_or(identity::Role::member);
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& user : flags.users) {
    request.user = user;
    const auto project = TRY(client.call(
        api::kSetMember, {.path = client::Path::of_name(flags.project), .request = request}));
    print(flags.json     ? dump_json(to_json(project), Indent::two)
          : request.role ? format("{} is a {} of {}", user, name_of(*request.role), flags.project)
                         : format("{} is no member of {} any more", user, flags.project));
  }
  return kDone;
}

Result<int> add_services(const ProjectFlags& flags) {
  const auto role = TRY(role_option(flags.role)).value_or(identity::Role::member);
  client::Client client = TRY(connect_to_daemon());
  for (const std::string& name : flags.users) {
    const auto user =
        TRY(client.call(api::kAddService, {.path = client::Path::of_name(flags.project),
                                           .request = {.name = name, .role = role}}));
    print(flags.json ? dump_json(to_json(user), Indent::two)
                     : format("added the service account {0}, a {1} of {2}; `lockstep token create "
                              "--user {0}` makes a token for it",
                              name, name_of(role), flags.project));
  }
  return kDone;
}

Result<void> check_project_flags(const ProjectFlags& flags) {
  if (!is_action(kProjectActions, flags.action))
    return Error{Code::invalid, format("project: there is no action \'{}\': write one of {}",
                                       flags.action, kProjectActions)};
  const bool is_of_users = flags.action == "member" || flags.action == "service";
  if (flags.action == "ls") {
    if (flags.project.empty()) return {};
    return Error{Code::invalid, "project ls: lists all of them: leave out the name"};
  }
  if (flags.project.empty())
    return Error{Code::invalid, format("project {}: name a project", flags.action)};
  if (is_of_users && flags.users.empty())
    return Error{Code::invalid,
                 format("project {}: name a user, too, behind the project", flags.action)};
  if (!is_of_users && !flags.users.empty())
    return Error{Code::invalid, format("project {}: takes one project", flags.action)};
  if (!is_of_users && !flags.role.empty())
    return Error{Code::invalid,
                 format("project {}: --role is for member and service", flags.action)};
  if (flags.remove && (flags.action != "member" || !flags.role.empty()))
    return Error{Code::invalid, "project: --remove is for member, without --role"};
  return {};
}

Result<int> act_on(const ProjectFlags& flags) {
  TRY(check_project_flags(flags));
  if (flags.action == "add" || flags.action == "rm") return add_or_remove(flags);
  if (flags.action == "member") return set_members(flags);
  if (flags.action == "service") return add_services(flags);
  return list_projects(flags.json);
}

}  // namespace

// `lockstep project ls|add|rm|member|service [PROJECT] [USER...]`.
void add_project(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("project", "List, add and remove projects, and set their members");
  auto flags = std::make_shared<ProjectFlags>();
  command->add_option("action", flags->action, "what to do")
      ->required()
      ->type_name(kProjectActions);
  command->add_option("project", flags->project, "the project")->type_name("PROJECT");
  command->add_option("user", flags->users, "of member and service: users by their names")
      ->type_name("USER");
  command
      ->add_option("--role", flags->role,
                   "of member and service: what they may do in the project (member)")
      ->type_name(kRoles);
  command->add_flag("--remove", flags->remove, "of member: they are no members any more");
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "A viewer reads the runs of the project, a member starts runs and stops its own, a manager "
      "stops\nall and sets members. service: adds a user without a password for a program, which "
      "belongs to the\nproject. rm: its runs stay, for admins.\n\n"
      "Examples:\n"
      "  lockstep project ls\n"
      "  lockstep project add demo\n"
      "  lockstep project member demo ann bob --role manager\n"
      "  lockstep project service demo ci");
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
