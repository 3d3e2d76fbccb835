#include "map/discover/gpu_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/os/files.h"
#include "map/discover/fake_root_for_test.h"

namespace lockstep::map {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void add_cards(FakeRoot& root, const std::vector<std::string>& cards) {
  for (std::size_t i = 0; i < cards.size(); ++i) {
    root.add_card(cards[i], format("Device Minor: \t {}\n", i));
    root.add_device(format("nvidia{}", i));
  }
}

TEST(GpuFaults, AreMemoryErrorsAndLostCards) {
  FakeRoot root;
  add_cards(root, {"0000:01:00.0", "0000:81:00.0", "0000:82:00.0", "0000:99:00.0"});
  EXPECT_THAT(gpu_faults({.root = root.path(), .nvml = LOCKSTEP_FAKE_NVML}),
              ElementsAre(HasSubstr("GPU 2 has 3 memory errors"), HasSubstr("GPU 3 is lost")));
}

TEST(GpuFaults, AreUnknownWithoutNvml) {
  FakeRoot root;
  add_cards(root, {"0000:82:00.0"});
  EXPECT_THAT(gpu_faults({.root = root.path(), .nvml = "libno-such-nvml.so"}), IsEmpty());
}

TEST(DriverVersion, IsThatOfTheLoadedModule) {
  FakeRoot root;
  EXPECT_EQ(nvidia_driver_version(root.path()), std::nullopt);
  root.add_folder(root.path() / "sys/module/nvidia");
  ASSERT_TRUE(write_file(root.path() / "sys/module/nvidia/version", "580.65.06\n"));
  EXPECT_EQ(nvidia_driver_version(root.path()), "580.65.06");
}

}  // namespace
}  // namespace lockstep::map
