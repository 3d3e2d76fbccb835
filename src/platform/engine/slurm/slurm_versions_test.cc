// The words and forms of Slurm that differ between its versions, 20.11 to 25.05. Those of 22.05 are
// recorded; the others are as the sources of each version print them (node_state_string,
// job_state_string, the topology plugins).
#include <string>
#include <vector>

#include <gtest/gtest.h>

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
       .leaf_switches = 0}};
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

}  // namespace
}  // namespace lockstep::engine
