// NVML, and discovery as a whole, on the made-up machine of fake_nvml_for_test.c.
#include "map/discover/nvml.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/log.h"
#include "map/discover/discover.h"
#include "map/discover/fake_root_for_test.h"
#include "map/map_file.h"
#include "map/query.h"

namespace lockstep::map {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kCards = {"0000:01:00.0", "0000:02:00.0", "0000:41:00.0",
                                         "0000:42:00.0", "0000:43:00.0", "0000:81:00.0",
                                         "0000:82:00.0"};

// The driver's files of all cards of the made-up machine.
class NvmlMachine : public testing::Test {
 protected:
  NvmlMachine() {
    for (std::size_t i = 0; i < kCards.size(); ++i) {
      root_.add_card(kCards[i], format("Device Minor: \t {}\n", i));
      root_.add_device(format("nvidia{}", i));
    }
  }

  FakeRoot root_;
};

Host host_of(const GpuSources& sources) { return *hosts(discover_local(sources).value()).front(); }

std::vector<std::string> island_numbers(const Host& host) {
  std::vector<std::string> islands;
  for (const Island& island : host.islands) {
    std::vector<int> numbers;
    for (const Device& device : island.devices) numbers.push_back(device.number);
    islands.push_back(joined(numbers, ","));
  }
  return islands;
}

TEST(Nvml, ItTellsUuidMemoryMigAndNvlinksOfEachCard) {
  const auto gpus =
      query_nvml({"0000:01:00.0", "0000:43:00.0", "0000:82:00.0"}, LOCKSTEP_FAKE_NVML);
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(gpus[0].uuid, "GPU-01");
  EXPECT_EQ(gpus[0].memory, 80_GiB);
  EXPECT_THAT(gpus[0].links, ElementsAre("0000:02:00.0"));
  EXPECT_FALSE(gpus[0].mig);
  EXPECT_TRUE(gpus[1].mig);
  EXPECT_THAT(gpus[2].links, IsEmpty()) << "the link is down";
}

TEST(Nvml, WithoutItOrForACardThatItLacksAllIsUnknown) {
  for (const auto* library : {"/no/such/libnvidia-ml.so.1", LOCKSTEP_FAKE_NVML}) {
    const auto gpus = query_nvml({"0000:99:00.0", ""}, library);
    ASSERT_EQ(gpus.size(), 2u);
    EXPECT_EQ(gpus[0].uuid, "");
    EXPECT_EQ(gpus[0].memory, std::nullopt);
    EXPECT_FALSE(gpus[1].mig);
  }
}

TEST(Nvml, ADomainIsAllThatNvlinksReachDirectlyOrThroughASwitch) {
  const auto domains = nvlink_domains(kCards, query_nvml(kCards, LOCKSTEP_FAKE_NVML));
  ASSERT_EQ(domains.size(), kCards.size());
  EXPECT_TRUE(domains[0]);
  EXPECT_EQ(domains[0], domains[1]);
  EXPECT_TRUE(domains[2]);
  EXPECT_EQ(domains[2], domains[3]);
  EXPECT_EQ(domains[3], domains[4]);
  EXPECT_NE(domains[0], domains[2]);
  EXPECT_FALSE(domains[5]);
  EXPECT_FALSE(domains[6]);
}

TEST_F(NvmlMachine, TheMapHasMemoryUuidsAndNvlinkIslands) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); });
  const auto map = discover_local({.root = root_.path(), .nvml = LOCKSTEP_FAKE_NVML}).value();
  set_log_sink({});
  const Host& host = *hosts(map).front();
  EXPECT_THAT(island_numbers(host), ElementsAre("0,1", "2,3", "5,6"));
  EXPECT_EQ(host.islands[0].devices[1], (Device{DeviceKind::gpu, 1, 80_GiB, false, "GPU-02"}));
  EXPECT_EQ(host.islands[2].devices[0].memory, 24_GiB);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("GPU 4 (GPU-43) is in MIG mode")));
  EXPECT_EQ(parse_map(dump_map(map), "map.yaml").value(), map) << dump_map(map);
  EXPECT_EQ(map_from_json(map_to_json(map)).value(), map);
}

TEST_F(NvmlMachine, WithoutItGpusAreInNumaNodesAndTheirMemoryIsUnknown) {
  const Host host = host_of({.root = root_.path(), .nvml = "/no/such/libnvidia-ml.so.1"});
  EXPECT_THAT(island_numbers(host), ElementsAre("0,1,2,3,4,5,6"));
  EXPECT_EQ(host.islands[0].devices[0], (Device{DeviceKind::gpu, 0, std::nullopt, false}));
}

TEST_F(NvmlMachine, OnlyTheGpusThatTheDaemonMayUseAreInTheMap) {
  const auto offered = [&](const std::string& visible) {
    return host_of({.root = root_.path(), .nvml = LOCKSTEP_FAKE_NVML, .visible = visible});
  };
  EXPECT_THAT(island_numbers(offered("3,5")), ElementsAre("3", "5"));
  EXPECT_THAT(island_numbers(offered("GPU-02,0")), ElementsAre("0,1"));
  EXPECT_EQ(offered("").islands.front().devices.front().kind, DeviceKind::core);
}

}  // namespace
}  // namespace lockstep::map
