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
            "out of memory: Slurm's job 7 used more than it was given; ask for more with `needs: "
            "memory`, or use less");
  EXPECT_EQ(seen_of(job_in("TIMEOUT"), kStarted).reason, "Slurm ended job 7 at its time limit");
  EXPECT_EQ(seen_of(job_in("CANCELLED"), kStarted).reason, "Slurm's job 7 was cancelled");
  EXPECT_EQ(seen_of(job_in("COMPLETED"), kStarted).reason, "");
}

TEST(SlurmNodes, AJobThatIsCancelledOrOutOfTimeBlamesNoHost) {
  for (const char* state : {"CANCELLED", "REVOKED", "TIMEOUT", "DEADLINE"})
    EXPECT_EQ(seen_of(job_in(state), kStarted).blame, EndBlame::engine) << state;
}

// Recorded from Slurm 22.05.8: the last one with JobAcctGatherParams=OverMemoryKill.
TEST(SlurmNodes, TheOutputOfAStepTellsThatItUsedTooMuchMemory) {
  for (const char* words :
       {"srun: error: n1: task 0: Out Of Memory\n",
        "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=1.0. Some of your processes "
        "may have been killed by the cgroup out-of-memory handler.\n",
        "slurmstepd-n1: error: StepId=1.0 exceeded memory limit (151580672 > 104857600), being "
        "killed\n"})
    EXPECT_TRUE(tells_out_of_memory(words)) << words;
  EXPECT_FALSE(tells_out_of_memory("srun: error: n1: task 0: Killed\n"));
  SlurmNodeFiles files = kStarted;
  files.step_ended = files.out_of_memory = true;
  const auto seen = seen_of(job_in("RUNNING"), files);
  EXPECT_EQ(seen.phase, NodePhase::gone);
  EXPECT_TRUE(seen.reason.starts_with("out of memory: Slurm's job 7")) << seen.reason;
  EXPECT_TRUE(seen.out_of_memory);
}

TEST(SlurmNodes, ALimitThatKeepsAJobWaitingIsExplained) {
  const auto reason_of = [](const char* reason) {
    return seen_of(job_in("PENDING", reason), kNotStarted).reason;
  };
  EXPECT_EQ(reason_of("QOSGrpGRES"),
            "Slurm keeps job 7 in its queue: QOSGrpGRES (the jobs of its QOS together have reached "
            "a limit)");
  for (const auto& [reason, words] : {std::pair("AssocGrpCpuLimit", "of its account together"),
                                      {"QOSMaxJobsPerUserLimit", "of its user together"},
                                      {"MaxGRESPerAccount", "of its account together"},
                                      {"QOSMaxGRESPerJob", "it never starts"},
                                      {"AssocMaxWallDurationPerJobLimit", "it never starts"},
                                      {"QOSMaxCpuPerNode", "on a host"},
                                      {"PartitionTimeLimit", "more time than the partition"}})
    EXPECT_NE(reason_of(reason).find(words), std::string::npos) << reason_of(reason);
  EXPECT_EQ(reason_of("ReqNodeNotAvail, UnavailableNodes:n1"),
            "Slurm keeps job 7 in its queue: ReqNodeNotAvail, UnavailableNodes:n1");
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
