#include "platform/engine/slurm/slurm_job_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/engine/slurm/slurm_partitions.h"

namespace lockstep::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// c1 and c2 have cores; g1 has GPUs and few cores, g2 has many.
std::vector<SlurmHost> mixed_hosts() {
  return hosts_of_partitions(parse_slurm_hosts("c1|idle|(null)|4|1|c1|cpu|(null)|none\n"
                                               "c2|idle|(null)|16|1|c2|cpu|(null)|none\n"
                                               "g1|idle|gpu:a100:4|8|1|g1|gpus|(null)|none\n"
                                               "g2|idle|gpu:8|64|1|g2|gpus|(null)|none\n"),
                             {{.name = "gpus"}, {.name = "cpu"}});
}

Gang gang_of(int nodes, int devices, bool gpus, std::vector<std::string> hosts = {}) {
  Gang gang;
  gang.devices_per_node = devices;
  hosts.resize(static_cast<std::size_t>(nodes));
  for (const std::string& host : hosts) {
    NodePlacement& node = gang.nodes.emplace_back();
    node.host = host;
    node.gpus = gpus;
  }
  return gang;
}

TEST(SlurmJobSize, OnChosenHostsIsTheirPartitionAndTheirShareOfCores) {
  const auto size = slurm_job_size(gang_of(1, 4, true, {"g2"}), mixed_hosts()).value();
  EXPECT_EQ(size, (SlurmJobSize{.partition = "gpus", .cores = 32, .gpus = 4}));
  const auto refused = slurm_job_size(gang_of(2, 1, false, {"c1", "g1"}), mixed_hosts());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("several partitions"));
}

TEST(SlurmJobSize, WithoutHostsIsTheSmallestShareOfThoseThatSlurmMayChoose) {
  EXPECT_EQ(slurm_job_size(gang_of(2, 2, true), mixed_hosts()).value(),
            (SlurmJobSize{.partition = "gpus", .cores = 4, .gpus = 2}));
  EXPECT_EQ(slurm_job_size(gang_of(1, 8, true), mixed_hosts()).value(),
            (SlurmJobSize{.partition = "gpus", .cores = 64, .gpus = 8}))
      << "g1 is too small";
}

TEST(SlurmJobSize, CoresComeFromAPartitionThatIsNotExcluded) {
  Gang gang = gang_of(2, 2, false);
  gang.excluded_hosts = {"g1", "g2", "c1", "gone"};
  const auto size = slurm_job_size(gang, mixed_hosts()).value();
  EXPECT_EQ(size.partition, "cpu");
  EXPECT_EQ(size.cores, 2);
  EXPECT_EQ(size.gpus, 0);
  EXPECT_THAT(size.excluded, ElementsAre("c1")) << "only hosts of the partition that Slurm has";
}

TEST(SlurmJobSize, ThePartitionHasEnoughHostsForTheGang) {
  Gang gang = gang_of(2, 2, false);
  gang.excluded_hosts = {"c2"};
  EXPECT_EQ(slurm_job_size(gang, mixed_hosts()).value().partition, "gpus") << "cpu has one left";
  gang = gang_of(5, 2, false);
  EXPECT_EQ(slurm_job_size(gang, mixed_hosts()).value().partition, "cpu") << "none has five";
}

TEST(SlurmJobSize, ThePartitionOfTheRunCounts) {
  Gang gang = gang_of(1, 2, false);
  gang.slurm = model::SlurmRequest{.partition = "cpu"};
  EXPECT_EQ(slurm_job_size(gang, mixed_hosts()).value().partition, "cpu");
}

TEST(SlurmJobSize, WithoutASuitableHostIsLeftToSlurm) {
  const auto size = slurm_job_size(gang_of(1, 100, false), mixed_hosts()).value();
  EXPECT_EQ(size.partition, "");
  EXPECT_EQ(size.cores, 100);
  EXPECT_THAT(size.excluded, IsEmpty());
}

}  // namespace
}  // namespace lockstep::engine
