#include "platform/identity/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/identity/changes.h"
#include "platform/identity/rights.h"

namespace lockstep::identity {
namespace {

using ::testing::HasSubstr;

const Time kNow{std::chrono::seconds(1'790'000'000)};

// The daemon's user root; ann; bob; the project demo with ann as a manager.
class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    directory_.daemon_user = "root";
    identity::apply(directory_, first_rows(directory_, kNow));
    make(add_user(directory_, "ann", kNow));
    make(add_user(directory_, "bob", kNow));
    make(add_project(directory_, "demo", kNow));
    make(set_member(directory_, "demo", "ann", Role::manager));
  }
  void make(const Result<Changes>& changes) {
    ASSERT_TRUE(changes) << changes.error().message;
    identity::apply(directory_, *changes);
  }
  static std::string refusal_of(const Result<Changes>& changes) {
    return changes ? "no refusal" : changes.error().message;
  }

  Directory directory_;
};

TEST_F(DirectoryTest, BeginsWithAnAdminItsProjectAndTheSharedOne) {
  EXPECT_TRUE(is_admin(directory_, {.user = "root"}));
  EXPECT_EQ(directory_.projects.at("root").owner, "root");
  EXPECT_TRUE(directory_.projects.contains("default"));
  EXPECT_EQ(first_rows(directory_, kNow), Changes()) << "the second start changes nothing";
}

TEST_F(DirectoryTest, TheUserOfTheDaemonIsAnAdminAgainAtTheNextStart) {
  directory_.users["root"].admin = false;
  directory_.users["root"].disabled = true;
  identity::apply(directory_, first_rows(directory_, kNow));
  EXPECT_TRUE(is_admin(directory_, {.user = "root"}));
}

TEST_F(DirectoryTest, AUserHasAPersonalProject) {
  EXPECT_EQ(role_in(directory_, {.user = "ann"}, "ann"), Role::manager);
  EXPECT_EQ(role_in(directory_, {.user = "bob"}, "ann"), std::nullopt);
  EXPECT_THAT(refusal_of(set_member(directory_, "ann", "ann", std::nullopt)),
              HasSubstr("personal project"));
  EXPECT_THAT(refusal_of(set_member(directory_, "ann", "ann", Role::viewer)),
              HasSubstr("personal project"));
  EXPECT_THAT(refusal_of(remove_project(directory_, "ann", kNow)), HasSubstr("user rm ann"));
}

TEST_F(DirectoryTest, ANameIsShortAndPlain) {
  for (const std::string& name :
       {std::string(), std::string(300, 'a'), std::string("Ann"), std::string("\xc3\xa4nn"),
        std::string("an\xd0\xbd"), std::string("a b"), std::string("a/b"), std::string("../a"),
        std::string("-a"), std::string(".."), std::string("a\n"), std::string("a\0b", 3)}) {
    EXPECT_THAT(refusal_of(add_user(directory_, name, kNow)), HasSubstr("a name has 1 to 64 of"));
    EXPECT_THAT(refusal_of(add_project(directory_, name, kNow)), HasSubstr("a-z, 0-9"));
  }
  make(add_user(directory_, std::string(64, 'a'), kNow));
  make(add_user(directory_, "0.a_b-c", kNow));
}

TEST_F(DirectoryTest, ANameIsGivenOnce) {
  EXPECT_THAT(refusal_of(add_user(directory_, "ann", kNow)), HasSubstr("a user ann already"));
  EXPECT_THAT(refusal_of(add_user(directory_, "demo", kNow)), HasSubstr("a project demo already"));
  EXPECT_THAT(refusal_of(add_project(directory_, "ann", kNow)), HasSubstr("ann already"));
  EXPECT_THAT(refusal_of(add_user(directory_, "default", kNow)), HasSubstr("default already"));
  make(remove_user(directory_, "bob", kNow));
  EXPECT_THAT(refusal_of(add_user(directory_, "bob", kNow)), HasSubstr("was removed"));
}

TEST_F(DirectoryTest, TheLastAdminStays) {
  directory_.daemon_user = "";
  for (const auto& refused :
       {remove_user(directory_, "root", kNow), set_admin(directory_, "root", false),
        set_disabled(directory_, "root", true)})
    EXPECT_THAT(refusal_of(refused), HasSubstr("the last admin"));
  make(set_admin(directory_, "ann", true));
  make(set_disabled(directory_, "ann", true));
  EXPECT_THAT(refusal_of(remove_user(directory_, "root", kNow)), HasSubstr("the last admin"))
      << "a disabled admin can do nothing";
  make(set_disabled(directory_, "ann", false));
  make(remove_user(directory_, "root", kNow));
}

TEST_F(DirectoryTest, TheUserOfTheDaemonStaysAnAdmin) {
  make(set_admin(directory_, "ann", true));
  EXPECT_THAT(refusal_of(remove_user(directory_, "root", kNow)), HasSubstr("user of the daemon"));
  EXPECT_THAT(refusal_of(set_admin(directory_, "root", false)), HasSubstr("user of the daemon"));
  EXPECT_THAT(refusal_of(set_disabled(directory_, "root", true)), HasSubstr("user of the daemon"));
}

TEST_F(DirectoryTest, ARemovedUserHasNoRights) {
  make(add_token(directory_, {.user = "ann"}, new_token(), kNow));
  make(remove_user(directory_, "ann", kNow));
  EXPECT_EQ(find_user(directory_, "ann"), nullptr);
  EXPECT_TRUE(directory_.tokens.empty());
  EXPECT_TRUE(memberships_of(directory_, "ann").empty());
  EXPECT_FALSE(may(directory_, {.user = "ann"}, Action::read_cluster));
  EXPECT_THAT(refusal_of(set_disabled(directory_, "ann", false)), HasSubstr("no user ann"));
}

TEST_F(DirectoryTest, AServiceAccountBelongsToOneProject) {
  make(add_service(directory_, "ci", "demo", Role::member, kNow));
  EXPECT_EQ(role_in(directory_, {.user = "ci"}, "demo"), Role::member);
  EXPECT_THAT(refusal_of(set_member(directory_, "bob", "ci", Role::viewer)),
              HasSubstr("service account of the project demo"));
  EXPECT_THAT(refusal_of(set_admin(directory_, "ci", true)), HasSubstr("cannot be an admin"));
  EXPECT_THAT(refusal_of(set_password_hash(directory_, "ci", "x")), HasSubstr("no password"));
  make(remove_project(directory_, "demo", kNow));
  EXPECT_EQ(find_user(directory_, "ci"), nullptr);
  EXPECT_EQ(role_in(directory_, {.user = "ann"}, "demo"), std::nullopt);
  make(add_project(directory_, "demo", kNow));
  EXPECT_TRUE(members_of(directory_, "demo").empty());
}

TEST_F(DirectoryTest, UnknownUsersProjectsAndMembersAreNamed) {
  EXPECT_THAT(refusal_of(set_member(directory_, "demo", "eve", Role::viewer)),
              HasSubstr("no user eve; `lockstep user ls`"));
  EXPECT_THAT(refusal_of(set_member(directory_, "other", "bob", Role::viewer)),
              HasSubstr("no project other; `lockstep project ls`"));
  EXPECT_THAT(refusal_of(set_member(directory_, "demo", "bob", std::nullopt)),
              HasSubstr("bob is no member"));
  EXPECT_THAT(refusal_of(revoke_token(directory_, "x")), HasSubstr("token ls"));
  EXPECT_THAT(refusal_of(set_disabled(directory_, "\xc3\xa4", true)), HasSubstr("a-z, 0-9"));
}

TEST_F(DirectoryTest, OneLogInIsOfOneUser) {
  make(set_oidc_subject(directory_, "ann", "https://a 1"));
  EXPECT_THAT(refusal_of(set_oidc_subject(directory_, "bob", "https://a 1")),
              HasSubstr("the user ann has this"));
}

TEST_F(DirectoryTest, ATokenIsBounded) {
  EXPECT_THAT(
      refusal_of(add_token(directory_, {.user = "bob", .project = "demo"}, new_token(), kNow)),
      HasSubstr("no member of the project demo"));
  EXPECT_THAT(refusal_of(add_token(directory_, {.user = "bob", .ends = kNow}, new_token(), kNow)),
              HasSubstr("ended already"));
  EXPECT_THAT(
      refusal_of(add_token(directory_, {.user = "bob", .name = "a\x1b"}, new_token(), kNow)),
      HasSubstr("ASCII"));
  const Time later = kNow + std::chrono::days(32);
  for (std::size_t i = 0; i < kTokensMax; ++i)
    make(add_token(directory_, {.user = "bob", .ends = kNow + Duration(1)}, new_token(), kNow));
  EXPECT_THAT(refusal_of(add_token(directory_, {.user = "bob"}, new_token(), kNow)),
              HasSubstr("1000 tokens"));
  make(add_token(directory_, {.user = "bob"}, new_token(), later));
  EXPECT_EQ(directory_.tokens.size(), 1U) << "those that ended a month ago have gone";
}

TEST(UnixUser, HasANearPermittedName) {
  EXPECT_EQ(name_of_unix_user("ann"), "ann");
  EXPECT_EQ(name_of_unix_user("AD\\Ann Lee"), "ad-ann-lee");
  EXPECT_EQ(name_of_unix_user("_apt"), "uapt");
  EXPECT_EQ(name_of_unix_user(""), "admin");
  EXPECT_TRUE(check_identity_name("user", name_of_unix_user(std::string(300, '\xff'))));
}

TEST(Secrets, BelongToAProjectAndGoWithIt) {
  Directory directory;
  directory.daemon_user = "root";
  identity::apply(directory, first_rows(directory, Time()));
  identity::apply(directory, add_project(directory, "speech", Time()).value());
  identity::apply(directory, add_user(directory, "ann", Time()).value());
  for (const char* project : {"speech", "ann"})
    identity::apply(directory,
                    set_secret(directory, {.id = {project, "hf"}, .sealed = "v1:a"}).value());
  identity::apply(directory,
                  set_secret(directory, {.id = {"speech", "hf"}, .sealed = "v1:b"}).value());
  EXPECT_EQ(secrets_of(directory, "speech").at(0)->sealed, "v1:b");
  EXPECT_EQ(set_secret(directory, {.id = {"nowhere", "hf"}, .sealed = ""}).error().code,
            Code::not_found);
  EXPECT_EQ(remove_secret(directory, {"speech", "other"}).error().code, Code::not_found);

  identity::apply(directory, remove_user(directory, "ann", Time()).value());
  EXPECT_TRUE(secrets_of(directory, "ann").empty());
  identity::apply(directory, remove_project(directory, "speech", Time()).value());
  EXPECT_TRUE(directory.secrets.empty());
}

}  // namespace
}  // namespace lockstep::identity
