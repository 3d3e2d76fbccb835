#include "platform/engine/slurm/slurm_output.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using Names = std::vector<std::string>;

TEST(SlurmOutput, HostListsWithRangesAndLeadingZerosAreExpanded) {
  EXPECT_EQ(expand_host_list("n[1-3,07],gpu5"), (Names{"n1", "n2", "n3", "n07", "gpu5"}));
  EXPECT_EQ(expand_host_list("rack[1-2]n[09-10]"),
            (Names{"rack1n09", "rack1n10", "rack2n09", "rack2n10"}));
  EXPECT_EQ(expand_host_list(""), Names{});
}

// Recorded from squeue 22.05.8.
TEST(SlurmOutput, JobsAreReadAndWarningsAreLeftOut) {
  const auto jobs = parse_slurm_jobs(
      "squeue: error: a warning\n"
      "2|PENDING|Resources||2|lockstep 0a:0b:demo/2.1\n"
      "1|RUNNING|None|n[1-2]|2|a | comment\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].id, 2);
  EXPECT_EQ(jobs[0].state, "PENDING");
  EXPECT_EQ(jobs[0].reason, "Resources");
  EXPECT_EQ(jobs[0].hosts, Names{});
  EXPECT_EQ(jobs[1].hosts, (Names{"n1", "n2"}));
  EXPECT_EQ(jobs[1].comment, "a | comment");
}

TEST(SlurmOutput, StepsHaveTheirJobAndName) {
  const auto steps = parse_slurm_steps("1.0|node-0|n1\n1.batch|batch|n1\n");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].job, 1);
  EXPECT_EQ(steps[0].number, "0");
  EXPECT_EQ(steps[0].name, "node-0");
  EXPECT_EQ(steps[1].number, "batch");
}

// The first two are recorded from sinfo 22.05.8.
TEST(SlurmOutput, AHostThatIsDrainedOrSilentIsClosedWithSlurmsReason) {
  const auto hosts = parse_slurm_hosts(
      "n1|idle|(null)|4|1000|127.0.0.1|none\n"
      "n3|drained|(null)|4|1000|127.0.0.1|bad | memory test\n"
      "n4|down*|gpu:a100:8(S:0-1)|128|1031000|10.0.0.4|Not responding\n"
      "n5|allocated|gpu:8|64|1|n5|none\n"
      "n6|mixed$|(null)|64|1|n6|none\n");
  ASSERT_EQ(hosts.size(), 5u);
  EXPECT_EQ(why_slurm_closed(hosts[0]), "");
  EXPECT_EQ(why_slurm_closed(hosts[1]), "Slurm says that it is drained: bad | memory test");
  EXPECT_FALSE(is_slurm_host_down(hosts[1]));
  EXPECT_EQ(why_slurm_closed(hosts[2]),
            "Slurm says that it is down and does not respond: Not responding");
  EXPECT_TRUE(is_slurm_host_down(hosts[2]));
  EXPECT_EQ(hosts[2].gpus, 8);
  EXPECT_EQ(hosts[2].cores, 128);
  EXPECT_EQ(hosts[2].address, "10.0.0.4");
  EXPECT_EQ(why_slurm_closed(hosts[3]), "");
  EXPECT_NE(why_slurm_closed(hosts[4]), "");
}

TEST(SlurmOutput, GpusOfAllTypesAreCounted) {
  EXPECT_EQ(gpu_count("(null)"), 0);
  EXPECT_EQ(gpu_count("gpu:8"), 8);
  EXPECT_EQ(gpu_count("gpu:a100:4(S:0-1),nic:2"), 4);
  EXPECT_EQ(gpu_count("gpu:a100:4(S:0),gpu:v100:2(S:1)"), 6);
}

TEST(SlurmOutput, TheDefaultPartitionHasAStar) {
  EXPECT_EQ(default_slurm_partition("other\nall*"), "all");
  EXPECT_EQ(default_slurm_partition("other"), "");
}

TEST(SlurmOutput, TheNumberOfASubmittedJobFollowsWarnings) {
  EXPECT_EQ(parse_submitted_job("sbatch: a warning\n123").value(), 123);
  EXPECT_EQ(parse_submitted_job("123;cluster").value(), 123);
  EXPECT_EQ(parse_submitted_job("").error().code, Code::unavailable);
}

TEST(SlurmOutput, SwitchesHaveTheirHostsAndTheSwitchesBelow) {
  const auto switches = parse_slurm_switches(
      "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
      "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]\n");
  ASSERT_EQ(switches.size(), 2u);
  EXPECT_EQ(switches[0].hosts, (Names{"n1", "n2"}));
  EXPECT_EQ(switches[1].level, 1);
  EXPECT_EQ(switches[1].switches, (Names{"leaf1", "leaf2"}));
}

}  // namespace
}  // namespace lockstep::engine
