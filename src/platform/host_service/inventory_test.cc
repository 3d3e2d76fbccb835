#include "platform/host_service/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "text/convert.h"

namespace lockstep::host_service {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

class FixedClock : public Clock {
 public:
  Time now() const override { return Time(std::chrono::seconds(1'000'000'000)); }
};

InventorySources sources_below(const std::filesystem::path& root) {
  return {.gpus = {.root = root, .nvml = "libno-such-nvml.so"},
          .root = root,
          .folders = {root / "not/yet/there"},
          .users = {"ann"},
          .version = "1.2.3"};
}

TEST(Inventory, OfAMachineWithoutGpusHasItsCoresAndNetwork) {
  const TemporaryFolder root;
  const auto host = take_inventory(sources_below(root.path()), FixedClock());
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_FALSE(host->name.empty() || host->boot.empty() || host->kernel.empty());
  EXPECT_EQ(host->version, "1.2.3");
  EXPECT_EQ(host->clock, FixedClock().now());
  EXPECT_THAT(host->users, ElementsAre("ann"));
  EXPECT_THAT(host->devices, Each(Field("kind", &api::HostDevice::kind, map::DeviceKind::core)));
  EXPECT_EQ(static_cast<int>(host->devices.size()), host->cores);
  EXPECT_THAT(host->interfaces, Each(Field("name", &api::HostInterface::name, Not("lo"))));
  EXPECT_EQ(host->driver, "");
}

TEST(Inventory, ReadsTheDistributionAndTheMemoryThatIsAvailable) {
  const TemporaryFolder root;
  ASSERT_TRUE(make_folders(root / "etc"));
  ASSERT_TRUE(make_folders(root / "proc"));
  ASSERT_TRUE(
      write_file(root / "etc/os-release", "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n"));
  ASSERT_TRUE(write_file(root / "proc/meminfo",
                         "MemTotal:  4096 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n"));
  const auto host = take_inventory(sources_below(root.path()), FixedClock()).value();
  EXPECT_EQ(host.distribution, "debian 12");
  EXPECT_EQ(host.memory, 4_MiB);
  EXPECT_EQ(host.memory_available, 2_MiB);
}

TEST(Inventory, SaysOfWhatItCannotReadThatItIsUnknown) {
  const TemporaryFolder root;
  const auto host = take_inventory(sources_below(root.path()), FixedClock()).value();
  EXPECT_EQ(host.distribution, "");
  EXPECT_EQ(host.memory_available, std::nullopt);
}

TEST(Inventory, OfAFolderThatIsNotThereYetHasTheDiskThatWillHoldIt) {
  const TemporaryFolder root;
  const auto host = take_inventory(sources_below(root.path()), FixedClock()).value();
  ASSERT_EQ(host.disks.size(), 1u);
  EXPECT_EQ(host.disks[0].path, (root / "not/yet/there").string());
  EXPECT_GT(host.disks[0].size, 0_B);
}

TEST(Inventory, IsTheSameAfterItsWayThroughJson) {
  const TemporaryFolder root;
  const auto host = take_inventory(sources_below(root.path()), FixedClock()).value();
  const auto read = from_json<api::HostInventory>(to_json(host));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(host));
  EXPECT_THAT(host.device_faults, IsEmpty());
}

}  // namespace
}  // namespace lockstep::host_service
