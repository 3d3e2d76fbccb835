#include "platform/engine/slurm/slurm_map.h"

#include <gtest/gtest.h>

#include "map/query.h"
#include "platform/engine/slurm/slurm_parts.h"

namespace lockstep::engine {
namespace {

std::vector<SlurmHost> four_hosts() {
  return parse_slurm_hosts(
      "n1|idle|(null)|4|1000|10.0.0.1|all|(null)|none\n"
      "n2|idle|(null)|4|1000|n2|all|(null)|none\n"
      "n3|idle|gpu:8|64|1000|n3|all|a100,ib|none\n"
      "n3|idle|gpu:8|64|1000|n3|big|a100,ib|none\n"
      "n4|idle|gpu:8|64|1000|n4|all|(null)|none\n");
}

TEST(SlurmMap, LeavesAndPodsComeFromTheSwitches) {
  const auto map = map_of_slurm(
      four_hosts(), parse_slurm_switches("SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
                                         "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
                                         "SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] "
                                         "Switches=leaf[1-2]\n"));
  ASSERT_TRUE(map::check(map));
  ASSERT_EQ(map.pods.size(), 1u);
  EXPECT_EQ(map.pods[0].name, "spine");
  ASSERT_EQ(map.pods[0].leaves.size(), 2u);
  EXPECT_EQ(map.pods[0].leaves[1].name, "leaf2");
  EXPECT_EQ(map.pods[0].leaves[1].hosts[0].id, "n3");
}

TEST(SlurmMap, AHostWithoutGpusHasItsCoresAsDevices) {
  const auto map = map_of_slurm(four_hosts(), {});
  ASSERT_TRUE(map::check(map));
  const map::Host* cores = map::find_host(map, "n1");
  EXPECT_EQ(map::address_of(*cores), "10.0.0.1");
  EXPECT_EQ(map::device_count(*cores), 4u);
  EXPECT_EQ(map::devices(*cores)[3]->kind, map::DeviceKind::core);
  const map::Host* gpus = map::find_host(map, "n3");
  EXPECT_EQ(map::device_count(*gpus), 8u);
  EXPECT_EQ(map::devices(*gpus)[7]->kind, map::DeviceKind::gpu);
}

TEST(SlurmMap, PartitionsAndFeaturesAreLabels) {
  const auto map = map_of_slurm(four_hosts(), {});
  EXPECT_EQ(map::labels_text(map::find_host(map, "n3")->labels),
            "feature/a100=yes, feature/ib=yes, partition/all=yes, partition/big=yes");
  EXPECT_EQ(map::labels_text(map::find_host(map, "n1")->labels), "partition/all=yes");
}

// A line of a host with two types, as `sinfo -N` prints it.
std::vector<SlurmHost> host_of_two_types() {
  return parse_slurm_hosts("n1|idle|gpu:a100:4(S:0),gpu:h100:4(S:1)|64|1000|n1|all|(null)|none\n");
}

TEST(SlurmMap, AHostWithSeveralTypesIsAHostOfEachTypeInAPodOfItsOwn) {
  const auto switches = parse_slurm_switches("SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n1\n");
  const auto map = map_of_slurm(parts_by_gpu_type(host_of_two_types()), switches);
  ASSERT_TRUE(map::check(map));
  ASSERT_EQ(map.pods.size(), 2u);
  EXPECT_EQ(map.pods[1].name, "leaf1-h100");
  const map::Host& host = map.pods[1].leaves.at(0).hosts.at(0);
  EXPECT_EQ(host.id, "n1.gpu-h100");
  EXPECT_EQ(map::address_of(host), "n1");
  EXPECT_EQ(map::device_count(host), 4u);
  EXPECT_EQ(map::labels_text(host.labels), "gpu-type/h100=yes, partition/all=yes");
}

TEST(SlurmMap, ATypeBesideGpusWithoutOneIsNoLabelByWhichLockstepChoosesTheHost) {
  const auto hosts = parse_slurm_hosts("n1|idle|gpu:a100:4,gpu:4|64|1000|n1|all|(null)|none\n");
  const auto map = map_of_slurm(parts_by_gpu_type(hosts), {});
  ASSERT_TRUE(map::check(map));
  const map::Host* host = map::find_host(map, "n1");
  EXPECT_EQ(map::device_count(*host), 8u);
  EXPECT_EQ(map::labels_text(host->labels), "gpu-type/a100=one-of-several, partition/all=yes");
}

TEST(SlurmMap, EachTypeOfAHostIsALabelWhereSlurmChooses) {
  const auto map = map_of_slurm(host_of_two_types(), {}, HostsChosenBy::slurm);
  EXPECT_EQ(map::labels_text(map::find_host(map, "n1")->labels),
            "gpu-type/a100=yes, gpu-type/h100=yes, partition/all=yes");
}

TEST(SlurmMap, EachPartitionThatIsUsedHasItsOwnPod) {
  const auto map = map_of_slurm(
      hosts_of_partitions(four_hosts(), parse_slurm_partitions("gpu=big,core=all").value()), {});
  ASSERT_EQ(map.pods.size(), 2u);
  EXPECT_EQ(map.pods[0].name, "all-slurm");
  EXPECT_EQ(map.pods[1].name, "big-slurm");
}

}  // namespace
}  // namespace lockstep::engine
