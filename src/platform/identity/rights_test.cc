#include "platform/identity/rights.h"

#include <gtest/gtest.h>

namespace lockstep::identity {
namespace {

// A user of each role in the project "own"; the run is of `member`. `outsider` is in no project.
Directory directory_of_roles() {
  Directory directory;
  for (const std::string name : {"admin", "manager", "member", "viewer", "outsider"})
    directory.users[name] = {.name = name, .admin = name == "admin"};
  for (const std::string project : {"own", "other"}) directory.projects[project] = {project};
  for (const Role role : {Role::viewer, Role::member, Role::manager}) {
    const MemberId id{"own", std::string(name_of(role))};
    directory.members[id] = {id, role};
  }
  return directory;
}

struct Case {
  Action action;
  // Users that may do it: on a run of its own in own, on another's in own, in other, without a
  // project.
  std::string_view own_run, others_run, other_project, no_project;
};

constexpr Case kCases[] = {
    {Action::none, "admin manager member viewer outsider", "admin manager member viewer outsider",
     "admin manager member viewer outsider", "admin manager member viewer outsider"},
    {Action::read_cluster, "admin manager member viewer outsider",
     "admin manager member viewer outsider", "admin manager member viewer outsider",
     "admin manager member viewer outsider"},
    {Action::read_run, "admin manager member viewer", "admin manager member viewer", "admin",
     "admin manager member viewer"},
    {Action::submit_run, "admin manager member", "admin manager member", "admin",
     "admin manager member"},
    {Action::control_run, "admin manager member", "admin manager", "admin", "admin"},
    {Action::open_shell, "admin manager member", "", "admin", ""},
    {Action::manage_project, "admin manager", "admin manager", "admin", "admin"},
    {Action::read_audit, "admin manager", "admin manager", "admin manager", "admin manager"},
    {Action::manage_self, "admin manager member viewer outsider",
     "admin manager member viewer outsider", "admin manager member viewer outsider",
     "admin manager member viewer outsider"},
    {Action::manage_cluster, "admin", "admin", "admin", "admin"},
    {Action::manage_users, "admin", "admin", "admin", "admin"},
};

// The users that may do it.
std::string users_that_may(const Directory& directory, Action action, std::string_view project,
                           std::string_view owner) {
  std::string users;
  for (const std::string_view user : {"admin", "manager", "member", "viewer", "outsider"}) {
    const Target target{project, owner == "self" ? user : owner};
    if (may(directory, {.user = std::string(user)}, action, target))
      users += (users.empty() ? "" : " ") + std::string(user);
  }
  return users;
}

TEST(Rights, FollowFromTheRole) {
  const Directory directory = directory_of_roles();
  EXPECT_EQ(std::size(kCases), enum_names(Action()).size()) << "each action is in the table";
  for (const Case& one : kCases) {
    SCOPED_TRACE(name_of(one.action));
    EXPECT_EQ(users_that_may(directory, one.action, "own", "self"), one.own_run);
    EXPECT_EQ(users_that_may(directory, one.action, "own", "eve"), one.others_run);
    EXPECT_EQ(users_that_may(directory, one.action, "other", "self"), one.other_project);
    EXPECT_EQ(users_that_may(directory, one.action, "", ""), one.no_project);
  }
}

TEST(Rights, AShellOfAServiceAccountIsForManagersWithARowAndForNoAdminAsSuch) {
  Directory directory = directory_of_roles();
  directory.users["ci"] = {.name = "ci", .kind = UserKind::service, .project = "own"};
  EXPECT_EQ(users_that_may(directory, Action::open_shell, "own", "ci"), "manager");
  directory.members[{"own", "admin"}] = {{"own", "admin"}, Role::manager};
  EXPECT_EQ(users_that_may(directory, Action::open_shell, "own", "ci"), "admin manager");
  EXPECT_EQ(users_that_may(directory, Action::open_shell, "own", "eve"), "");
}

TEST(Rights, ADisabledUserHasNone) {
  Directory directory = directory_of_roles();
  for (auto& [name, user] : directory.users) user.disabled = true;
  for (const auto& [action, name] : enum_names(Action()))
    if (action != Action::none) {
      EXPECT_EQ(users_that_may(directory, action, "own", "self"), "") << name;
      EXPECT_EQ(users_that_may(directory, action, "", ""), "") << name;
    }
}

TEST(Rights, ATokenOfAProjectGivesNoneElsewhere) {
  Directory directory = directory_of_roles();
  directory.members[{"other", "manager"}] = {{"other", "manager"}, Role::manager};
  for (const std::string user : {"manager", "admin"}) {
    const Bearer bearer{.user = user, .token = "t", .project = "other"};
    EXPECT_TRUE(may(directory, bearer, Action::control_run, {"other", "eve"}));
    EXPECT_FALSE(may(directory, bearer, Action::read_run, {"own", user}));
    EXPECT_FALSE(may(directory, bearer, Action::manage_self));
    EXPECT_FALSE(may(directory, bearer, Action::manage_users));
    EXPECT_FALSE(may(directory, bearer, Action::manage_cluster));
    EXPECT_EQ(default_project(directory, bearer), "other");
  }
}

TEST(Rights, ATokenOfARoleGivesNoHigherOne) {
  const Directory directory = directory_of_roles();
  for (const std::string user : {"admin", "manager", "member", "viewer"}) {
    const Bearer bearer{.user = user, .token = "t", .role = Role::viewer};
    EXPECT_EQ(role_in(directory, bearer, "own"), Role::viewer);
    EXPECT_FALSE(may(directory, bearer, Action::submit_run));
    EXPECT_FALSE(may(directory, bearer, Action::control_run, {"own", user}));
    EXPECT_FALSE(may(directory, bearer, Action::manage_self));
  }
  const Bearer viewer{.user = "viewer", .token = "t", .role = Role::manager};
  EXPECT_EQ(role_in(directory, viewer, "own"), Role::viewer) << "it adds nothing";
}

TEST(Rights, AServiceAccountMakesNoTokens) {
  Directory directory = directory_of_roles();
  directory.users["member"].kind = UserKind::service;
  directory.users["member"].project = "own";
  EXPECT_FALSE(may(directory, {.user = "member"}, Action::manage_self));
  EXPECT_EQ(default_project(directory, {.user = "member"}), "own");
}

TEST(Rights, AManagerOpensShellsInRunsOfServiceAccountsOnly) {
  Directory directory = directory_of_roles();
  const auto users = [&] { return users_that_may(directory, Action::open_shell, "own", "member"); };
  EXPECT_EQ(users(), "member");
  directory.users["member"].kind = UserKind::service;
  directory.users["member"].project = "own";
  EXPECT_EQ(users(), "manager member");
}

TEST(Rights, ARunWithoutAProjectIsInOneWhereItsUserMayStartIt) {
  Directory directory = directory_of_roles();
  EXPECT_EQ(default_project(directory, {.user = "admin"}), "default");
  EXPECT_EQ(default_project(directory, {.user = "outsider"}), "outsider");
  directory.members[{"default", "outsider"}] = {{"default", "outsider"}, Role::viewer};
  EXPECT_EQ(default_project(directory, {.user = "outsider"}), "outsider");
  directory.members[{"default", "outsider"}].role = Role::member;
  EXPECT_EQ(default_project(directory, {.user = "outsider"}), "default");
}

}  // namespace
}  // namespace lockstep::identity
