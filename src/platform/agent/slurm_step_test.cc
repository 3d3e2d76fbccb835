#include "platform/agent/slurm_step.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

host::LaunchSpec launch_with_two_gpus() {
  host::LaunchSpec launch;
  launch.gpus = true;
  launch.devices = {0, 1};
  return launch;
}

TEST(SlurmStep, TheGpusAreThoseThatSlurmHasChosen) {
  auto launch = launch_with_two_gpus();
  use_place_of_slurm_step(launch, {{"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", "4,6"}});
  EXPECT_EQ(launch.devices, (std::vector<int>{4, 6}));
  EXPECT_TRUE(launch.device_uuids.empty());
}

TEST(SlurmStep, GpusThatSlurmNamesByUuidKeepTheirNumbers) {
  auto launch = launch_with_two_gpus();
  use_place_of_slurm_step(launch,
                          {{"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b"}});
  EXPECT_EQ(launch.devices, (std::vector<int>{0, 1}));
  EXPECT_EQ(launch.device_uuids, (std::vector<std::string>{"GPU-a", "GPU-b"}));
}

TEST(SlurmStep, AHostThatSlurmHasChosenIsThatOfTheStep) {
  host::LaunchSpec launch;
  use_place_of_slurm_step(launch, {{"SLURM_STEP_ID", "0"}, {"SLURMD_NODENAME", "n3"}});
  EXPECT_EQ(launch.host, "n3");
  launch.host = "n1";
  use_place_of_slurm_step(launch, {{"SLURM_STEP_ID", "0"}, {"SLURMD_NODENAME", "n3"}});
  EXPECT_EQ(launch.host, "n1");
}

TEST(SlurmStep, OutsideOfAStepTheLaunchStaysAsItIs) {
  auto launch = launch_with_two_gpus();
  use_place_of_slurm_step(launch, {{"CUDA_VISIBLE_DEVICES", "4,6"}});
  EXPECT_EQ(launch.devices, (std::vector<int>{0, 1}));
  use_place_of_slurm_step(launch, {{"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", ""}});
  EXPECT_EQ(launch.devices, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace lockstep::agent
