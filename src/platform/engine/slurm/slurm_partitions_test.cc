#include "platform/engine/slurm/slurm_partitions.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using Partitions = std::vector<SlurmPartition>;

TEST(SlurmPartitions, OneNameOrOneForEachKindIsRead) {
  EXPECT_EQ(parse_slurm_partitions("").value(), Partitions{});
  EXPECT_EQ(parse_slurm_partitions("all").value(), (Partitions{{.name = "all"}}));
  EXPECT_EQ(parse_slurm_partitions("gpu=a100,core=cpu").value(),
            (Partitions{{"a100", map::DeviceKind::gpu}, {"cpu", map::DeviceKind::core}}));
}

TEST(SlurmPartitions, SeveralOfOneKindAreRefused) {
  for (const char* words : {"a,b", "gpu=a,gpu=b", "gpu=", "tpu=a", "gpu=a,b"})
    EXPECT_FALSE(parse_slurm_partitions(words)) << words;
  EXPECT_NE(parse_slurm_partitions("a,b").error().message.find("gpu=NAME,core=NAME"),
            std::string::npos);
}

// n2 is in both partitions.
std::vector<SlurmHost> three_hosts() {
  return parse_slurm_hosts(
      "n1|idle|(null)|4|1|n1|cpu|(null)|none\n"
      "n2|idle|gpu:8|64|1|n2|cpu|a100|none\n"
      "n2|idle|gpu:8|64|1|n2|a100|a100|none\n"
      "n3|idle|(null)|4|1|n3|other|(null)|none\n");
}

TEST(SlurmPartitions, AHostHasTheDevicesOfItsFirstPartition) {
  const auto hosts =
      hosts_of_partitions(three_hosts(), parse_slurm_partitions("gpu=a100,core=cpu").value());
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].name, "n1");
  EXPECT_EQ(hosts[0].partition, "cpu");
  EXPECT_EQ(hosts[1].partition, "a100");
  EXPECT_EQ(hosts[1].gpus, 8);
}

TEST(SlurmPartitions, HostsWithGpusCountByTheirCoresInAPartitionOfCores) {
  const auto hosts = hosts_of_partitions(three_hosts(), parse_slurm_partitions("core=cpu").value());
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[1].name, "n2");
  EXPECT_EQ(hosts[1].gpus, 0);
  EXPECT_EQ(hosts[1].cores, 64);
}

TEST(SlurmPartitions, AHostWithoutGpusIsNoHostOfGpus) {
  EXPECT_TRUE(
      hosts_of_partitions(three_hosts(), parse_slurm_partitions("gpu=other").value()).empty());
}

}  // namespace
}  // namespace lockstep::engine
