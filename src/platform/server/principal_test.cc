#include "platform/server/principal.h"

#include <gtest/gtest.h>

#include "platform/identity/changes.h"

namespace lockstep::server {
namespace {

using Kind = Principal::Kind;

class PrincipalTest : public testing::Test {
 protected:
  // Hosts a and b have joined for the third time.
  PrincipalTest() {
    for (const std::string host : {"a", "b"}) {
      model::HostRow row;
      row.id = host;
      row.credential = 3;
      row.claim = "claim";
      state_.hosts[host] = row;
    }
    directory_.daemon_user = "ann";
    identity::apply(directory_, identity::first_rows(directory_, now_));
  }
  std::optional<Principal> caller_of(api::Caller caller, const std::string& token,
                                     const std::vector<std::string>& path = {}) {
    net::HttpRequest request;
    request.headers.add("Authorization", "Bearer " + token);
    request.peer = "10.0.0.5";
    request.is_local = is_local_;
    return principal_of({.keys = keys_, .directory = directory_, .state = &state_, .now = now_},
                        caller, request, path);
  }

  const host::Keys keys_ = host::Keys::from_values(net::Secret::random(), "t0ken");
  const model::AttemptName attempt_{"", {{"demo", 1}, 2}};
  const std::vector<std::string> node_path_ = {"demo", "1", "2", "0"};
  const Time now_{std::chrono::seconds(1'790'000'000)};
  model::State state_;
  identity::Directory directory_;
  bool is_local_ = true;
};

TEST_F(PrincipalTest, IsTheOneWhoseTokenItIs) {
  const auto user = caller_of(api::Caller::user, "t0ken");
  ASSERT_TRUE(user);
  EXPECT_EQ(user->kind, Kind::user);
  EXPECT_EQ(user->name, "ann");
  const auto agent = caller_of(api::Caller::agent, keys_.agent_token(attempt_), node_path_);
  ASSERT_TRUE(agent);
  EXPECT_EQ(agent->kind, Kind::agent);
  EXPECT_EQ(agent->name, text(attempt_));
  const auto host = caller_of(api::Caller::host, keys_.host_token("a", 3), {"a"});
  ASSERT_TRUE(host);
  EXPECT_EQ(host->kind, Kind::host);
  EXPECT_EQ(host->name, "a");
  EXPECT_EQ(caller_of(api::Caller::anyone, "")->kind, Kind::anyone);
}

TEST_F(PrincipalTest, ATokenIsNotOneForAnotherCaller) {
  EXPECT_FALSE(caller_of(api::Caller::user, keys_.host_token("a", 3), {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::user, keys_.agent_token(attempt_)));
  EXPECT_FALSE(caller_of(api::Caller::agent, "t0ken", node_path_));
  EXPECT_FALSE(caller_of(api::Caller::host, "t0ken", {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("b", 3), {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("a", 3), {}));
}

TEST_F(PrincipalTest, ACredentialIsVoidOnceTheHostHasJoinedAgainOrIsRemoved) {
  const std::string credential = keys_.host_token("a", 3);
  EXPECT_TRUE(caller_of(api::Caller::host, credential, {"a"}));
  state_.hosts["a"].credential = 4;
  EXPECT_FALSE(caller_of(api::Caller::host, credential, {"a"}));
  state_.hosts["a"].claim.clear();
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("a", 4), {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("c", 0), {"c"}));
}

TEST_F(PrincipalTest, AJoinTokenIsOneForItsHostUntilItsEnd) {
  host::JoinToken token{
      .host = "c", .pod = "left", .number = 0, .end = now_ + std::chrono::seconds(1), .proof = {}};
  token.proof = keys_.join_proof(token);
  const auto joins = [&](const std::string& host) {
    return caller_of(api::Caller::joining, host::join_token_text(token), {host});
  };
  ASSERT_TRUE(joins("c"));
  EXPECT_EQ(joins("c")->join->pod, "left");
  EXPECT_FALSE(joins("a"));
  EXPECT_FALSE(caller_of(api::Caller::user, host::join_token_text(token)));
  token.end = now_;
  token.proof = keys_.join_proof(token);
  EXPECT_FALSE(joins("c"));
}

TEST_F(PrincipalTest, AnActionOfAnotherMachineHasItsAddress) {
  EXPECT_EQ(actor_of(*caller_of(api::Caller::user, "t0ken")), "ann");
  is_local_ = false;
  EXPECT_EQ(actor_of(*caller_of(api::Caller::user, "t0ken")), "ann from 10.0.0.5");
}

TEST_F(PrincipalTest, ATokenIsOneOfItsUserWithItsBounds) {
  const identity::TokenText token = identity::new_token();
  identity::apply(directory_, identity::add_project(directory_, "demo", now_).value());
  const identity::NewToken bounds{
      .user = "ann", .project = "demo", .role = identity::Role::viewer, .ends = now_ + Duration(1)};
  identity::apply(directory_, identity::add_token(directory_, bounds, token, now_).value());
  const auto user = caller_of(api::Caller::user, text(token));
  ASSERT_TRUE(user);
  EXPECT_EQ(user->name, "ann");
  EXPECT_EQ(
      user->bearer,
      (identity::Bearer{
          .user = "ann", .token = token.id, .project = "demo", .role = identity::Role::viewer}));
  EXPECT_FALSE(caller_of(api::Caller::agent, text(token), node_path_));
  EXPECT_FALSE(caller_of(api::Caller::host, text(token), {"a"}));
}

}  // namespace
}  // namespace lockstep::server
