// RightsChecker finds a gate that decides wrongly, and runs that no user was allowed to start.
#include "sim/checks/rights_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::sim {
namespace {

using identity::Role;
using ::testing::HasSubstr;
using ::testing::Optional;

class RightsCheckerTest : public ::testing::Test {
 protected:
  RightsCheckerTest() {
    checker_.admin_made("ops", true);
    checker_.role_given("demo", "ann", Role::member);
    checker_.role_given("demo", "eve", Role::viewer);
    checker_.token_made("of ann", {.user = "ann"});
    checker_.token_made("of eve", {.user = "eve"});
  }

  void add_run(const std::string& user, const std::string& request_id) {
    model::Run run;
    run.id = {"demo", 1};
    run.origin.user = user;
    run.request_id = request_id;
    state_.runs[run.id] = run;
  }

  SimContext context_{{}};
  model::State state_;
  RightsChecker checker_{context_, state_};
};

TEST_F(RightsCheckerTest, ARunOfAMemberIsInOrder) {
  checker_.check_submission("of ann", "request-1", "demo", true);
  add_run("ann", "request-1");
  checker_.check_runs();
  EXPECT_EQ(context_.violation(), std::nullopt);
}

TEST_F(RightsCheckerTest, ASubmissionOfAViewerMustBeRefused) {
  checker_.check_submission("of eve", "request-1", "demo", true);
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("request-1 to demo by eve is admitted")));
}

TEST_F(RightsCheckerTest, AMembersSubmissionMustBeAdmitted) {
  checker_.check_submission("of ann", "request-1", "demo", false);
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("by ann is refused wrongly")));
}

TEST_F(RightsCheckerTest, ATokenThatWasRevokedGivesNoRights) {
  checker_.token_revoked("of ann");
  checker_.check_submission("of ann", "request-1", "demo", true);
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("an invalid token is admitted")));
}

TEST_F(RightsCheckerTest, AMemberStopsItsOwnRunsOnly) {
  add_run("bob", "request-1");
  checker_.check_control("of ann", state_.runs.begin()->second, true);
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("demo/1 by ann is admitted")));
}

TEST_F(RightsCheckerTest, ARunUnderTheNameOfAnotherUserIsFound) {
  checker_.check_submission("of ann", "request-1", "demo", true);
  add_run("bob", "request-1");
  checker_.check_runs();
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("bob was not allowed to start demo/1")));
}

TEST_F(RightsCheckerTest, AClusterWithoutAnAdminIsFound) {
  checker_.user_disabled("ops", true);
  EXPECT_THAT(context_.violation(), Optional(HasSubstr("has no admin any more")));
}

}  // namespace
}  // namespace lockstep::sim
