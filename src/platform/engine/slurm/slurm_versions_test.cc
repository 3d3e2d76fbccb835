// The words and forms of Slurm that differ between its versions, 20.11 to 25.05. Those of 22.05 are
// recorded; the others are as the sources of each version print them (node_state_string,
// job_state_string, slurm_errno.c, the topology plugins). The fields of our formats have the same
// form in all of them: the functions of squeue and sinfo that print them differ in no release.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "platform/engine/slurm/slurm_commands.h"
#include "platform/engine/slurm/slurm_nodes.h"
#include "platform/engine/slurm/slurm_output.h"

namespace lockstep::engine {
namespace {

using Words = std::vector<std::string>;

struct SlurmVersion {
  const char* name;
  Words open, closed;      // states of hosts, as `sinfo -o %T` prints them
  Words pending, running;  // states of jobs, as `squeue -o %T` prints them
  std::string topology;    // of `scontrol show topology`
  std::size_t leaf_switches;
};

constexpr auto kTree =
    "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-4]\n"
    "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[5-8]\n"
    "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=leaf[1-2]\n";
const Words kPending = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD"};
const Words kRunning = {"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STOPPED"};

std::vector<SlurmVersion> versions() {
  return {
      {.name = "20.11: powered off hosts have flags alone",
       .open = {"idle", "idle~", "idle#", "idle%", "mixed", "allocated+", "completing", "reserved"},
       .closed = {"down", "down*", "drained*", "draining@", "maint*", "unknown*", "failing", "fail",
                  "future", "reboot", "idle*", "mixed$"},
       .pending = kPending,
       .running = kRunning,
       .topology = kTree,
       .leaf_switches = 2},
      {.name = "21.08: planned hosts, hosts that are to power down or reboot",
       .open = {"planned", "mixed-", "idle!", "powered_down", "powering_up", "powering_down"},
       .closed = {"inval", "reboot^", "idle^", "down^", "down!"},
       .pending = kPending,
       .running = kRunning,
       .topology = kTree,
       .leaf_switches = 2},
      {.name = "22.05",
       .open = {"idle", "mixed", "allocated"},
       .closed = {"drained", "down*"},
       .pending = kPending,
       .running = kRunning,
       .topology = kTree,
       .leaf_switches = 2},
      {.name = "23.11: blocks",
       .open = {"idle", "planned"},
       .closed = {"inval"},
       .pending = kPending,
       .running = kRunning,
       .topology = "BlockName=b1 BlockIndex=0 Nodes=n[1-4]\nBlockName=b2 BlockIndex=1 "
                   "Nodes=n[5-8]\n",
       .leaf_switches = 2},
      {.name = "24.05: hosts that an exclusive topology blocks",
       .open = {"idle", "undrain"},
       .closed = {"blocked"},
       .pending = kPending,
       .running = kRunning,
       .topology = kTree,
       .leaf_switches = 2},
      {.name = "24.11: sizes of blocks, and aggregated ones",
       .open = {"idle"},
       .closed = {"blocked"},
       .pending = kPending,
       .running = kRunning,
       .topology = "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n"
                   "BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4\n"
                   "AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-8] BlockSize=8\n",
       .leaf_switches = 2},
      {.name = "25.05: external hosts, and no topology of the default one",
       .open = {"idle"},
       .closed = {"external"},
       .pending = kPending,
       .running = kRunning,
       .topology = "",
       .leaf_switches = 0},
      {.name = "25.05: a tree",
       .open = {"mixed-", "idle~", "planned"},
       .closed = {"blocked", "drained^", "reboot^", "inval"},
       .pending = kPending,
       .running = kRunning,
       .topology = kTree,
       .leaf_switches = 2}};
}

struct SlurmWords {
  const char* version;  // the first one that has them
  const char* words;
};

std::string submission_error(const SlurmWords& words) {
  return std::string("sbatch: error: Batch job submission failed: ") + words.words;
}

SlurmHost host_in(const std::string& state) {
  return parse_slurm_hosts("n1|" + state + "|(null)|4|1000|n1|all|(null)|none\n").at(0);
}
SlurmJob job_with(const std::string& state) {
  return parse_slurm_jobs("7|" + state + "|None|n1|1|N/A|lockstep\n").at(0);
}

TEST(SlurmVersions, HostsTakeRunsInTheStatesOfEachVersionThatAllowIt) {
  for (const SlurmVersion& version : versions()) {
    for (const std::string& state : version.open)
      EXPECT_EQ(why_slurm_closed(host_in(state)), "") << version.name;
    for (const std::string& state : version.closed)
      EXPECT_NE(why_slurm_closed(host_in(state)), "") << version.name << ", " << state;
  }
}

TEST(SlurmVersions, JobsWaitRunAndEndInTheStatesOfEachVersion) {
  for (const SlurmVersion& version : versions()) {
    for (const std::string& state : version.pending)
      EXPECT_TRUE(is_slurm_job_pending(job_with(state))) << version.name << ", " << state;
    for (const std::string& state : version.running) {
      EXPECT_FALSE(is_slurm_job_pending(job_with(state))) << version.name << ", " << state;
      EXPECT_FALSE(is_slurm_job_over(job_with(state))) << version.name << ", " << state;
    }
  }
  for (const char* state : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED",
                            "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"})
    EXPECT_TRUE(is_slurm_job_over(job_with(state))) << state;
}

TEST(SlurmVersions, TheTopologyOfEachVersionHasTheHostsOfEachLeafSwitch) {
  for (const SlurmVersion& version : versions()) {
    std::size_t leaf_switches = 0, hosts = 0;
    for (const SlurmSwitch& one : parse_slurm_switches(version.topology))
      if (one.level == 0) {
        ++leaf_switches;
        hosts += one.hosts.size();
      }
    EXPECT_EQ(leaf_switches, version.leaf_switches) << version.name;
    EXPECT_EQ(hosts, version.leaf_switches * 4) << version.name;
  }
}

TEST(SlurmVersions, AnAnswerThatSaysLaterIsNoRefusal) {
  for (const SlurmWords& words :
       {SlurmWords{"20.11", "Slurm backup controller in standby mode"},
        SlurmWords{"20.11", "Unable to contact slurm controller (connect failure)"},
        SlurmWords{"21.08", "Controller is in standby mode, try a different controller"},
        SlurmWords{"23.02", "Rate limit exceeded, please retry momentarily"},
        SlurmWords{"24.05", "Rate limit exceeded, please retry later"}}) {
    EXPECT_TRUE(is_slurm_away(submission_error(words))) << words.version << ", " << words.words;
    EXPECT_FALSE(is_slurm_refusal(submission_error(words))) << words.version << words.words;
  }
}

TEST(SlurmVersions, ARequestThatDoesNotExistIsRefusedInTheWordsOfEachVersion) {
  for (const SlurmWords& words :
       {SlurmWords{"20.11", "Invalid user id"}, SlurmWords{"20.11", "Invalid qos specification"},
        SlurmWords{"20.11", "Invalid account or account/partition combination specified"},
        SlurmWords{"20.11", "Invalid feature specification"},
        SlurmWords{"22.05", "Invalid preferred feature specification"},
        SlurmWords{"23.11", "Invalid user ID"},
        SlurmWords{"23.11", "Invalid or unknown association"}}) {
    EXPECT_TRUE(is_slurm_refusal(submission_error(words))) << words.version << ", " << words.words;
    EXPECT_FALSE(is_slurm_away(submission_error(words))) << words.version << ", " << words.words;
  }
}

// Arrays and heterogeneous jobs are of other users' programs: Lockstep submits neither.
TEST(SlurmVersions, JobsOfEveryFormStandBesideOurs) {
  const auto jobs = parse_slurm_jobs(
      "7_[1-9%2]|PENDING|JobArrayTaskLimit||1|N/A|(null)\n"
      "8+0|RUNNING|None|n1|1|1795000000|(null)\n"
      "9|PENDING|ReqNodeNotAvail, UnavailableNodes:n[1-2]||2|N/A|lockstep\n"
      "10|PENDING|MaxGRESRunMinsPerUser||2|N/A|lockstep\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].reason, "ReqNodeNotAvail, UnavailableNodes:n[1-2]");
  const auto limited = observe_slurm_node(jobs[1], nullptr, {}, {});
  EXPECT_EQ(limited.reason,
            "Slurm keeps job 10 in its queue: MaxGRESRunMinsPerUser (the jobs of its user together "
            "have reached a limit)");
}

TEST(SlurmVersions, GpusAreCountedBesidePartsAndSharesOfThem) {
  EXPECT_EQ(gpu_count("gpu:tesla:2(S:0-1)"), 2);                               // 20.11
  EXPECT_EQ(gpu_count("gpu:a100_3g.20gb:2(S:0),gpu:a100_2g.10gb:3(S:0)"), 5);  // 21.08: MIG
  EXPECT_EQ(gpu_count("gpu:2(S:0),shard:16(S:0)"), 2);                         // 22.05: shards
  EXPECT_EQ(gpu_count("gpu:h100:8(S:0-1),shard:h100:64(S:0-1)"), 8);           // 23.02
  EXPECT_EQ(gpu_count("gpu:gb200:4(S:0,2),nic:mlx5:4"), 4);                    // 24.11
}

}  // namespace
}  // namespace lockstep::engine
