#include "platform/engine/k8s/pod_warning.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using model::EndBlame;

Json event_of(const std::string& reason, const std::string& message, const std::string& moment,
              const std::string& uid = "u") {
  return {{"involvedObject", {{"kind", "Pod"}, {"uid", uid}}},
          {"type", "Warning"},
          {"reason", reason},
          {"message", message},
          {"lastTimestamp", moment}};
}

PodWarning only(const Json& events) { return warnings_of_events(events).at("u"); }

constexpr auto kSecretMissing =
    R"(MountVolume.SetUp failed for volume "v" : secret "aws" not found)";

TEST(PodWarnings, ASecretThatIsMissingIsTheFaultOfTheRun) {
  const PodWarning warning =
      only(Json::array({event_of("FailedMount", kSecretMissing, "2026-11-27T10:00:00Z")}));
  EXPECT_EQ(warning.reason, std::string("FailedMount: ") + kSecretMissing);
  EXPECT_EQ(warning.blame, EndBlame::refusal);
}

TEST(PodWarnings, AServerOfFilesThatDoesNotAnswerIsTheFaultOfTheEngine) {
  const PodWarning warning = only(Json::array(
      {event_of("FailedMount", "mount.nfs: Connection timed out", "2026-11-27T10:00:00Z")}));
  EXPECT_EQ(warning.blame, EndBlame::engine);
}

TEST(PodWarnings, TheNewestEventCountsAndASummaryOnlyWithoutAnother) {
  const Json first = event_of("FailedMount", "old", "2026-11-27T10:00:00Z");
  const Json second = event_of("FailedMount", "new", "2026-11-27T10:02:00Z");
  const Json summary =
      event_of("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[v]",
               "2026-11-27T10:05:00Z");
  EXPECT_EQ(only(Json::array({second, first})).reason, "FailedMount: new");
  EXPECT_EQ(only(Json::array({first, summary, second})).reason, "FailedMount: new");
  EXPECT_NE(only(Json::array({summary})).reason.find("Unable to attach"), std::string::npos);
}

TEST(PodWarnings, EventsOfOtherReasonsAndOtherFormsAreNone) {
  EXPECT_TRUE(warnings_of_events(Json::array({event_of("BackOff", "restarting", ""), 7})).empty());
  EXPECT_TRUE(warnings_of_events(Json()).empty());
}

TEST(PodWarnings, EachPodHasItsOwn) {
  const auto warnings = warnings_of_events(
      Json::array({event_of("FailedMount", "a", "1", "u"),
                   event_of("FailedCreatePodSandBox", "no address is free", "1", "w")}));
  EXPECT_EQ(warnings.at("u").reason, "FailedMount: a");
  EXPECT_EQ(warnings.at("w").reason, "FailedCreatePodSandBox: no address is free");
}

}  // namespace
}  // namespace lockstep::engine
