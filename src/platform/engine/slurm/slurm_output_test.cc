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
      "2|PENDING|Resources||2|1795000000|lockstep 0a:0b:demo/2.1\n"
      "1|RUNNING|None|n[1-2]|2|N/A|a | comment\n");
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
      "n1|idle|(null)|4|1000|127.0.0.1|all|(null)|none\n"
      "n3|drained|(null)|4|1000|127.0.0.1|all|(null)|bad | memory test\n"
      "n4|down*|gpu:a100:8(S:0-1)|128|1031000|10.0.0.4|all|a100,ib|Not responding\n"
      "n5|allocated|gpu:8|64|1|n5|all|(null)|none\n"
      "n5|allocated|gpu:8|64|1|n5|big|(null)|none\n"
      "n6|mixed$|(null)|64|1|n6|all|(null)|none\n");
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
  EXPECT_EQ(hosts[2].features, (Names{"a100", "ib"}));
  EXPECT_EQ(hosts[3].partitions, (Names{"all", "big"}));
  EXPECT_EQ(why_slurm_closed(hosts[3]), "");
  EXPECT_NE(why_slurm_closed(hosts[4]), "");
}

TEST(SlurmOutput, GpusOfAllTypesAreCounted) {
  using Types = std::vector<SlurmGpus>;
  EXPECT_EQ(gpu_types("gpu:a100:4(S:0-1),nic:2"), (Types{{"a100", 4}}));
  EXPECT_EQ(gpu_types("gpu:a100:4(S:0),gpu:v100:2(S:1)"), (Types{{"a100", 4}, {"v100", 2}}));
  EXPECT_EQ(gpu_types("gpu:a100:2(S:0),gpu:a100:3(S:1)"), (Types{{"a100", 5}}));
  EXPECT_EQ(gpu_types("gpu:8"), (Types{{"", 8}}));
  EXPECT_EQ(gpu_types("gpu:a100:4,gpu:2"), (Types{{"a100", 4}, {"", 2}}));
  EXPECT_EQ(gpu_types("(null)"), Types{});
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

// In this form by Slurm where only leaves have a list of hosts.
TEST(SlurmOutput, ASwitchAboveOthersMayHaveNoListOfHosts) {
  const auto switches = parse_slurm_switches(
      "SwitchName=sp-266-p16-1 Level=1 LinkSpeed=1 Switches=le-266-q11-1-res,le-266-q14-1-res\n"
      "SwitchName=le-266-q11-1-res Level=0 LinkSpeed=1 Nodes=bm[053-054],bm[061-062]\n");
  ASSERT_EQ(switches.size(), 2u);
  EXPECT_EQ(switches[0].hosts, Names{});
  EXPECT_EQ(switches[0].switches, (Names{"le-266-q11-1-res", "le-266-q14-1-res"}));
  EXPECT_EQ(switches[1].hosts, (Names{"bm053", "bm054", "bm061", "bm062"}));
}

// The form of 23.11 and later.
TEST(SlurmOutput, BlocksAreLeafSwitches) {
  const auto blocks = parse_slurm_switches(
      "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n"
      "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4\n");
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].name, "b1");
  EXPECT_EQ(blocks[0].level, 0);
  EXPECT_EQ(blocks[0].hosts, (Names{"n1", "n2"}));
}

TEST(SlurmOutput, StatesOfPowerSavingAndPlanningTakeRuns) {
  const auto hosts = parse_slurm_hosts(
      "c1|idle~|(null)|4|1|c1|all|(null)|none\n"
      "c2|mixed-|gpu:6000:8|4|1|c2|all|(null)|none\n"
      "c3|idle#|gpu:a100_1g.5gb:7,gpu:a100:4(S:0,2)|4|1|c3|all|(null)|none\n"
      "c4|down~|(null)|4|1|c4|all|(null)|none\n");
  ASSERT_EQ(hosts.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(why_slurm_closed(hosts[i]), "") << i;
  EXPECT_EQ(hosts[1].gpus, 8);
  EXPECT_EQ(hosts[2].gpus, 11);
  EXPECT_NE(why_slurm_closed(hosts[3]), "");
}

}  // namespace
}  // namespace lockstep::engine
