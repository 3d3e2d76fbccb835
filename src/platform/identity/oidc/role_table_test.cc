#include "platform/identity/oidc/role_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/identity/changes.h"

namespace lockstep::identity {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kTable = R"(
groups:
  ml-team: {projects: {speech: member}}
  leads: {projects: {speech: manager, vision: viewer}}
  ops: {admin: true}
)";

class RoleTableTest : public ::testing::Test {
 protected:
  RoleTableTest() {
    directory_.daemon_user = "root";
    identity::apply(directory_, first_rows(directory_, now_));
    for (const char* project : {"speech", "vision"})
      identity::apply(directory_, add_project(directory_, project, now_).value());
  }

  Result<OidcUser> user(const std::string& name, const std::vector<std::string>& groups,
                        const std::string& subject = "u1") {
    return oidc_user({subject, {{"preferred_username", name}, {"groups", groups}}},
                     "https://issuer", table_);
  }
  // Logs in, and makes the changes.
  std::string log_in_as(const std::string& name, const std::vector<std::string>& groups,
                        const std::string& subject = "u1") {
    const auto login = log_in(directory_, user(name, groups, subject).value(), now_);
    if (!login) return login.error().message;
    identity::apply(directory_, login->changes);
    return login->user;
  }
  std::optional<Role> role(const std::string& project, const std::string& user) {
    const auto found = directory_.members.find({project, user});
    return found == directory_.members.end() ? std::nullopt : std::optional(found->second.role);
  }

  const Time now_{};
  RoleTable table_ = parse_role_table(kTable, "roles.yaml").value();
  Directory directory_;
};

TEST_F(RoleTableTest, TheFirstLogInMakesTheUserWithThePersonalProjectAndTheHighestRoles) {
  EXPECT_EQ(log_in_as("Ann.Smith@example.com", {"ml-team", "leads", "unknown"}), "ann.smith");
  EXPECT_EQ(role("speech", "ann.smith"), Role::manager);
  EXPECT_EQ(role("vision", "ann.smith"), Role::viewer);
  EXPECT_EQ(role("ann.smith", "ann.smith"), Role::manager);
  EXPECT_EQ(directory_.users.at("ann.smith").oidc_subject, "https://issuer u1");
  EXPECT_FALSE(directory_.users.at("ann.smith").admin);
}

TEST_F(RoleTableTest, EachLogInGivesAndTakesTheRolesOfTheTablesProjectsOnly) {
  identity::apply(directory_, add_project(directory_, "other", now_).value());
  log_in_as("ann", {"leads", "ops"});
  identity::apply(directory_, set_member(directory_, "other", "ann", Role::member).value());
  EXPECT_TRUE(directory_.users.at("ann").admin);
  log_in_as("ann", {"ml-team"});
  EXPECT_EQ(role("speech", "ann"), Role::member);
  EXPECT_EQ(role("vision", "ann"), std::nullopt);
  EXPECT_EQ(role("other", "ann"), Role::member);
  EXPECT_FALSE(directory_.users.at("ann").admin);
}

TEST_F(RoleTableTest, AUserIsKnownByItsSubjectAndKeepsItsName) {
  log_in_as("ann", {"ml-team"});
  EXPECT_EQ(log_in_as("ann.married", {"ml-team"}), "ann");
  EXPECT_FALSE(directory_.users.contains("ann.married"));
}

TEST_F(RoleTableTest, ANameThatAnotherUserHasIsNotTakenOver) {
  identity::apply(directory_, add_user(directory_, "bob", now_).value());
  EXPECT_THAT(log_in_as("bob", {"ops"}), HasSubstr("`lockstep user link bob u1`"));
  EXPECT_THAT(log_in_as("root", {"ops"}), HasSubstr("there is a user root already"));
  log_in_as("ann", {"ml-team"});
  EXPECT_THAT(log_in_as("ann", {"ml-team"}, "u2"), HasSubstr("already"));
  identity::apply(directory_, set_oidc_subject(directory_, "bob", "https://issuer u3").value());
  EXPECT_EQ(log_in_as("bob", {"ml-team"}, "u3"), "bob");
}

TEST_F(RoleTableTest, ADisabledUserAndTheNameOfARemovedOneAreRefused) {
  log_in_as("ann", {"ml-team"});
  identity::apply(directory_, set_disabled(directory_, "ann", true).value());
  EXPECT_THAT(log_in_as("ann", {"ml-team"}), HasSubstr("disabled"));
  identity::apply(directory_, remove_user(directory_, "ann", now_).value());
  EXPECT_THAT(log_in_as("ann", {"ml-team"}), HasSubstr("removed"));
}

TEST_F(RoleTableTest, AUserInNoGroupOfTheTableIsRefused) {
  EXPECT_EQ(user("ann", {}).error().code, Code::denied);
  EXPECT_EQ(user("ann", {"*"}).error().code, Code::denied);
  table_.groups->emplace("*", GroupRights{});
  EXPECT_TRUE(user("ann", {}));
  table_.groups.reset();
  EXPECT_TRUE(user("ann", {}).value().projects.empty());
}

TEST_F(RoleTableTest, NamesThatAreNoneAndMissingClaimsAreRefused) {
  for (const char* name : {"", "@example.com", "a b", "\xc3\xa4nn", "../root"})
    EXPECT_EQ(user(name, {"ops"}).error().code, Code::denied) << name;
  EXPECT_THAT(oidc_user({"u1", Json::object()}, "i", table_).error().message,
              HasSubstr("user_claim"));
}

TEST_F(RoleTableTest, TheLastAdminAndTheDaemonsUserStayAdmins) {
  identity::apply(directory_, set_oidc_subject(directory_, "root", "https://issuer u0").value());
  EXPECT_EQ(log_in_as("root", {"ml-team"}, "u0"), "root");
  EXPECT_TRUE(directory_.users.at("root").admin);
}

TEST_F(RoleTableTest, AProjectThatDoesNotExistIsReported) {
  identity::apply(directory_, remove_project(directory_, "vision", now_).value());
  const auto login = log_in(directory_, user("ann", {"leads"}).value(), now_).value();
  EXPECT_THAT(login.unknown_projects, ElementsAre("vision"));
}

TEST_F(RoleTableTest, ErrorsOfTheFileHaveItsLine) {
  const auto error = [](const char* text) {
    return parse_role_table(text, "roles.yaml").error().message;
  };
  EXPECT_THAT(error("groups:\n  a: {projects: {speech: boss}}"),
              HasSubstr("roles.yaml:2: groups.a.projects.speech: 'boss' is none of viewer"));
  EXPECT_THAT(error("group: {}"), HasSubstr("roles.yaml:1"));
}

}  // namespace
}  // namespace lockstep::identity
