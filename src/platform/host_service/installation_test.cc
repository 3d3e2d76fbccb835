#include "platform/host_service/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::host_service {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(UnitOfTheHostService, LetsAgentsLiveAndStartsWithTheMachine) {
  const std::string unit = unit_text({.manager = ServiceManager::system,
                                      .program = "/usr/local/bin/lockstep",
                                      .home = "/var/lib/lockstep-host"});
  EXPECT_THAT(unit, HasSubstr("\nKillMode=process\nDelegate=yes\n"));
  EXPECT_THAT(unit, HasSubstr("\nRestart=always\n"));
  EXPECT_THAT(unit, HasSubstr("\nExecStart=\"/usr/local/bin/lockstep\" host serve\n"));
  EXPECT_THAT(unit, HasSubstr("\nEnvironment=\"LOCKSTEP_HOME=/var/lib/lockstep-host\"\n"));
  EXPECT_THAT(unit, HasSubstr("\nLimitMEMLOCK=infinity\n"));
  EXPECT_THAT(unit, HasSubstr("\nWantedBy=multi-user.target\n"));
}

TEST(UnitOfTheHostService, OfAUserNeedsNoRightsOfRoot) {
  const std::string unit = unit_text({.manager = ServiceManager::user,
                                      .program = "/home/ann/.local/bin/lockstep",
                                      .home = "/home/ann/.local/state/lockstep"});
  EXPECT_THAT(unit, Not(HasSubstr("LimitMEMLOCK")));
  EXPECT_THAT(unit, Not(HasSubstr("After=")));
  EXPECT_THAT(unit, HasSubstr("\nWantedBy=default.target\n"));
}

TEST(UnitOfTheHostService, QuotesPathsAsSystemdReadsThem) {
  const std::string unit = unit_text({.manager = ServiceManager::user,
                                      .program = "/home/ann/100% \"new\"/lockstep",
                                      .home = "/home/ann"});
  EXPECT_THAT(unit, HasSubstr(R"(ExecStart="/home/ann/100%% \"new\"/lockstep" host serve)"));
}

}  // namespace
}  // namespace lockstep::host_service
