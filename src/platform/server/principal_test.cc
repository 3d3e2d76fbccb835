#include "platform/server/principal.h"

#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using Kind = Principal::Kind;

class PrincipalTest : public testing::Test {
 protected:
  std::optional<Principal> caller_of(api::Caller caller, const std::string& token,
                                     const std::vector<std::string>& path = {}) {
    net::HttpRequest request;
    request.headers.add("Authorization", "Bearer " + token);
    request.peer = "10.0.0.5";
    request.is_local = is_local_;
    return principal_of({.keys = keys_, .user = "ann"}, caller, request, path);
  }

  const host::Keys keys_ = host::Keys::from_values(net::Secret::random(), "t0ken");
  const model::AttemptName attempt_{"", {{"demo", 1}, 2}};
  const std::vector<std::string> node_path_ = {"demo", "1", "2", "0"};
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
  const auto host = caller_of(api::Caller::host, keys_.host_token("a"), {"a"});
  ASSERT_TRUE(host);
  EXPECT_EQ(host->kind, Kind::host);
  EXPECT_EQ(host->name, "a");
  EXPECT_EQ(caller_of(api::Caller::anyone, "")->kind, Kind::anyone);
}

TEST_F(PrincipalTest, ATokenIsNotOneForAnotherCaller) {
  EXPECT_FALSE(caller_of(api::Caller::user, keys_.host_token("a"), {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::user, keys_.agent_token(attempt_)));
  EXPECT_FALSE(caller_of(api::Caller::agent, "t0ken", node_path_));
  EXPECT_FALSE(caller_of(api::Caller::host, "t0ken", {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("b"), {"a"}));
  EXPECT_FALSE(caller_of(api::Caller::host, keys_.host_token("a"), {}));
}

TEST_F(PrincipalTest, OnAnotherMachineTheNameOfAnActionIsNotWhatTheCallerSays) {
  EXPECT_EQ(actor_of(*caller_of(api::Caller::user, "t0ken"), "bob"), "bob");
  is_local_ = false;
  EXPECT_EQ(actor_of(*caller_of(api::Caller::user, "t0ken"), "bob"), "ann from 10.0.0.5");
}

}  // namespace
}  // namespace lockstep::server
