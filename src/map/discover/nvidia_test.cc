#include "map/discover/nvidia.h"

#include <gtest/gtest.h>

#include "map/discover/fake_root_for_test.h"

namespace lockstep::map {
namespace {

TEST(Nvidia, AMachineWithoutCardsHasNone) {
  EXPECT_TRUE(usable_nvidia_gpus(FakeRoot().path()).empty());
}

TEST(Nvidia, CardsStandInPciOrderAndOnesWithheldFromTheContainerAreLeftOut) {
  FakeRoot root;
  root.add_card("0000:81:00.0",
                "Model: \t\t NVIDIA H200\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
  root.add_card("0000:01:00.0", "Model: \t\t NVIDIA H200\nDevice Minor: \t 2\n");
  root.add_card("0000:41:00.0", "Model: \t\t NVIDIA H200\nDevice Minor: \t 1\n");
  root.add_card("0000:c1:00.0", "no minor is told");
  root.add_device("nvidia0");
  root.add_device("nvidia2");
  auto gpus = usable_nvidia_gpus(root.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].pci, "0000:01:00.0");
  EXPECT_EQ(gpus[0].minor, 2);
  EXPECT_EQ(gpus[1].pci, "0000:81:00.0");
}

TEST(Nvidia, WhereTheDriverShowsNoListDeviceFilesCount) {
  FakeRoot root;
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"})
    root.add_device(name);
  EXPECT_EQ(usable_nvidia_gpus(root.path()).size(), 2u);
}

TEST(Nvidia, ACardHasItsUuidOnceTheDriverKnowsIt) {
  FakeRoot root;
  root.add_card("0000:01:00.0", "GPU UUID: \t GPU-6ca3-01\nDevice Minor: \t 0\n");
  root.add_card("0000:02:00.0", "GPU UUID: \t GPU-\?\?\?\?-\?\?\nDevice Minor: \t 1\n");
  root.add_device("nvidia0");
  root.add_device("nvidia1");
  const auto gpus = usable_nvidia_gpus(root.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].uuid, "GPU-6ca3-01");
  EXPECT_EQ(gpus[1].uuid, "");
  EXPECT_EQ(gpus[1].number, 1);
}

TEST(Nvidia, ACardIsInMigModeIfItHasSlices) {
  FakeRoot root;
  root.add_card("0000:01:00.0", "Device Minor: \t 1\n");
  root.add_card("0000:02:00.0", "Device Minor: \t 0\n");
  root.add_device("nvidia0");
  root.add_device("nvidia1");
  root.add_file("proc/driver/nvidia/capabilities/mig/config");
  root.add_file("proc/driver/nvidia/capabilities/gpu1/mig/gi1/access");
  root.add_file("proc/driver/nvidia/capabilities/gpu0/fabric-imex-mgmt");
  root.add_folder("proc/driver/nvidia/capabilities/gpu0/mig");
  const auto gpus = usable_nvidia_gpus(root.path());
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_TRUE(gpus[0].mig);
  EXPECT_FALSE(gpus[1].mig) << "it supports MIG, and has no slices";
}

}  // namespace
}  // namespace lockstep::map
