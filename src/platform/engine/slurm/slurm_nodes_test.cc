#include "platform/engine/slurm/slurm_nodes.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using model::EndBlame;
using model::NodePhase;

SlurmJob job_in(const std::string& state, const std::string& reason = "None") {
  return {.id = 7,
          .state = state,
          .reason = reason,
          .hosts = {"n1", "n2"},
          .host_count = 2,
          .comment = ""};
}
const SlurmNodeFiles kNotStarted{.host = "n2"};
const SlurmNodeFiles kStarted{.host = "n2", .has_started = true};
const std::vector<SlurmHost> kHosts = parse_slurm_hosts(
    "n1|idle|(null)|4|1|n1|all|(null)|none\nn2|idle|(null)|4|1|n2|all|(null)|none\n");
const std::vector<SlurmHost> kSecondIsDown = parse_slurm_hosts(
    "n1|idle|(null)|4|1|n1|all|(null)|none\nn2|down*|(null)|4|1|n2|all|(null)|Not responding\n");

model::Observation seen_of(const SlurmJob& job, const SlurmNodeFiles& files,
                           const std::vector<SlurmHost>& hosts = kHosts) {
  return observe_slurm_node(job, nullptr, files, hosts);
}

TEST(SlurmNodes, APendingJobHasSlurmsReason) {
  const auto seen = seen_of(job_in("PENDING", "Resources"), kNotStarted);
  EXPECT_EQ(seen.phase, NodePhase::pending);
  EXPECT_EQ(seen.reason, "Slurm keeps job 7 in its queue: Resources");
  EXPECT_EQ(seen.handle, "7");
}

TEST(SlurmNodes, APendingJobHasTheStartThatSlurmExpects) {
  SlurmJob job = job_in("PENDING", "Resources");
  job.expected_start = Time(std::chrono::seconds(90));
  EXPECT_EQ(seen_of(job, kNotStarted).reason,
            "Slurm keeps job 7 in its queue: Resources; it expects the start at "
            "1970-01-01T00:01:00Z");
}

TEST(SlurmNodes, APendingNodeWhoseHostIsClosedIsGoneBecauseItsJobNamesThatHost) {
  const auto seen = seen_of(job_in("PENDING", "ReqNodeNotAvail"), kNotStarted, kSecondIsDown);
  EXPECT_EQ(seen.phase, NodePhase::gone);
  EXPECT_EQ(seen.blame, EndBlame::host);
  EXPECT_NE(seen.reason.find("Not responding"), std::string::npos);
}

TEST(SlurmNodes, ANodeWithAStepIsPresentUnderTheNameOfTheStep) {
  const SlurmStep step{.job = 7, .number = "1", .name = "node-1"};
  const auto seen = observe_slurm_node(job_in("RUNNING"), &step, kStarted, kHosts);
  EXPECT_EQ(seen.phase, NodePhase::present);
  EXPECT_TRUE(seen.has_agent);
  EXPECT_EQ(seen.handle, "7.1");
}

TEST(SlurmNodes, ANodeWithoutAStepStartsUntilItsAgentRan) {
  EXPECT_EQ(seen_of(job_in("RUNNING"), kNotStarted).phase, NodePhase::starting);
  EXPECT_EQ(seen_of(job_in("RUNNING"), kStarted).phase, NodePhase::gone);
}

TEST(SlurmNodes, ANodeOfAHostThatIsDownIsGoneWithItsReason) {
  const auto seen = seen_of(job_in("RUNNING"), kStarted, kSecondIsDown);
  EXPECT_EQ(seen.phase, NodePhase::gone);
  EXPECT_EQ(seen.blame, EndBlame::host);
  EXPECT_NE(seen.reason.find("Not responding"), std::string::npos);
}

TEST(SlurmNodes, AJobThatCompletesKeepsTheNodesOfItsHosts) {
  const auto seen = seen_of(job_in("COMPLETING"), kStarted);
  EXPECT_EQ(seen.phase, NodePhase::present);
  EXPECT_FALSE(seen.has_agent);
  SlurmNodeFiles ended = kStarted;
  ended.step_ended = true;
  EXPECT_EQ(seen_of(job_in("COMPLETING"), ended).phase, NodePhase::gone);
}

TEST(SlurmNodes, AFailedHostIsBlamedAndTheOthersAreNot) {
  const auto failed = seen_of(job_in("NODE_FAIL"), kStarted, kSecondIsDown);
  EXPECT_EQ(failed.blame, EndBlame::host);
  SlurmNodeFiles other = kStarted;
  other.host = "n1";
  const auto ended = seen_of(job_in("NODE_FAIL"), other, kSecondIsDown);
  EXPECT_EQ(ended.blame, EndBlame::engine);
  EXPECT_EQ(ended.reason, "Slurm ended job 7 because its host n2 failed");
}

TEST(SlurmNodes, PreemptionIsNoFaultOfAHost) {
  const auto seen = seen_of(job_in("PREEMPTED"), kStarted);
  EXPECT_EQ(seen.phase, NodePhase::gone);
  EXPECT_EQ(seen.blame, EndBlame::preemption);
}

TEST(SlurmNodes, EachEndOfAJobHasAReasonInWords) {
  EXPECT_EQ(seen_of(job_in("OUT_OF_MEMORY"), kStarted).reason,
            "Slurm ended job 7: it used more memory than it was given");
  EXPECT_EQ(seen_of(job_in("TIMEOUT"), kStarted).reason, "Slurm ended job 7 at its time limit");
  EXPECT_EQ(seen_of(job_in("CANCELLED"), kStarted).reason, "Slurm's job 7 was cancelled");
  EXPECT_EQ(seen_of(job_in("COMPLETED"), kStarted).reason, "");
}

TEST(SlurmNodes, AnAgentThatDidNotStartHasTheWordsOfSrun) {
  SlurmNodeFiles files = kNotStarted;
  files.step_ended = true;
  files.start_error = "srun: error: Unable to create step";
  const auto seen = seen_of(job_in("RUNNING"), files);
  EXPECT_EQ(seen.phase, NodePhase::gone);
  EXPECT_EQ(seen.blame, EndBlame::host);
  EXPECT_EQ(seen.reason, "Slurm's job 7: srun: error: Unable to create step");
}

}  // namespace
}  // namespace lockstep::engine
