#include "map/discover/nvidia.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::map {
namespace {

// A folder that looks like the root of a machine.
class FakeRoot {
 public:
  FakeRoot() { EXPECT_TRUE(make_folders(folder_ / "dev")); }

  void add_card(const std::string& pci, const std::string& information) {
    auto folder = folder_ / "proc/driver/nvidia/gpus" / pci;
    EXPECT_TRUE(make_folders(folder));
    EXPECT_TRUE(write_file(folder / "information", information));
  }
  void add_device(const std::string& name) { EXPECT_TRUE(write_file(folder_ / "dev" / name, "")); }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  const TemporaryFolder folder_;
};

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

}  // namespace
}  // namespace lockstep::map
