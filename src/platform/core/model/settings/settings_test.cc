#include "platform/core/model/settings/settings.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::model {
namespace {

using std::chrono::minutes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of(const std::vector<std::string>& changes) {
  const auto settings = settings_from(changes);
  return settings ? "" : settings.error().message;
}

TEST(Settings, AreChangedByNameAndTheChangesAreToldAgain) {
  const auto settings = settings_from({"lost_after=10m", "widespread_percent=5"});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->lost_after, Duration(minutes(10)));
  EXPECT_EQ(settings->widespread_percent, 5);
  EXPECT_EQ(settings->start_limit, Settings{}.start_limit);
  EXPECT_THAT(changes_of(*settings), ElementsAre("lost_after=10m", "widespread_percent=5"));
  EXPECT_EQ(settings_from(changes_of(*settings)).value(), *settings);
}

TEST(Settings, ThatAreUnknownOrNoValueAreRefusedByName) {
  EXPECT_THAT(refusal_of({"lost_afer=10m"}),
              AllOf(HasSubstr("lost_afer"), HasSubstr("lost_after")));
  EXPECT_THAT(refusal_of({"lost_after"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refusal_of({"lost_after=soon"}), HasSubstr("lost_after"));
  EXPECT_THAT(refusal_of({"widespread_percent=0"}), HasSubstr("widespread_percent"));
}

TEST(Settings, ThatContradictEachOtherAreRefused) {
  EXPECT_TRUE(check(Settings{}));
  EXPECT_THAT(refusal_of({"lost_after=20s"}), HasSubstr("lost_after: must be from 30s"));
  EXPECT_THAT(refusal_of({"lost_after=1h"}), HasSubstr("widespread_lost_after"));
  EXPECT_THAT(refusal_of({"grace_period=10m"}), HasSubstr("log_delivery_limit"));
  EXPECT_THAT(refusal_of({"connection_timeout=2h"}), HasSubstr("connection_timeout"));
  EXPECT_THAT(refusal_of({"unreachable_after=1s"}), HasSubstr("unreachable_after"));
  EXPECT_THAT(refusal_of({"upload_limit=2000 TiB"}), HasSubstr("upload_limit"));
  EXPECT_THAT(refusal_of({"artifact_max=2000 TiB"}), HasSubstr("artifact_max"));
  EXPECT_THAT(refusal_of({"lease=20s"}), HasSubstr("lease: must be from 30s"));
  EXPECT_EQ(refusal_of({"lease=0s"}), "") << "never";
  EXPECT_EQ(refusal_of({"finding_cordon=xid_error,ecc_errors"}), "");
  EXPECT_THAT(refusal_of({"finding_rerun=xid"}), HasSubstr("finding_rerun"));
}

TEST(Settings, HaveALineEachForHelp) {
  const std::string lines = settings_text();
  EXPECT_EQ(std::ranges::count(lines, '\n'), 28);
  EXPECT_THAT(lines, HasSubstr("  lost_after             5m     without a heartbeat"));
}

}  // namespace
}  // namespace lockstep::model
