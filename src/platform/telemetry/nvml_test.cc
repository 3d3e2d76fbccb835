#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/telemetry/device_sources.h"

namespace lockstep::telemetry {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// The values of the fake library are lines of this file.
class NvmlTest : public testing::Test {
 protected:
  NvmlTest() { ::setenv("LOCKSTEP_FAKE_NVML", (folder_ / "values").c_str(), 1); }
  ~NvmlTest() override { ::unsetenv("LOCKSTEP_FAKE_NVML"); }

  void set(const std::string& lines) { ASSERT_TRUE(write_file(folder_ / "values", lines)); }
  Readings read(Source& source, int second = 1) {
    Readings readings;
    source.read(seconds(second), readings);
    return readings;
  }

  const TemporaryFolder folder_;
};

constexpr const char* kDevice3 =
    "3 present 1\n3 utilization 97\n3 memory_utilization 41\n3 memory_total 85899345920\n"
    "3 memory_used 1073741824\n3 power 312500\n3 power_limit 700000\n3 energy 5000\n"
    "3 temperature 61\n3 memory_temperature 75\n3 sm_clock 1980\n3 memory_clock 2619\n"
    "3 ecc_corrected 2\n3 ecc_uncorrected 0\n3 pcie_replays 4\n3 pcie_transmit 1500\n"
    "3 pcie_receive 20\n3 clocks_event_reasons 68\n";

TEST_F(NvmlTest, ADeviceHasAllItsValuesInTheUnitsOfTheirNames) {
  set(std::string(kDevice3) + "3 nvlink_transmit 1000\n3 nvlink_receive 500\n");
  const auto source = nvml_source({{3, "GPU-fake-3"}}, LOCKSTEP_FAKE_NVML_NEW);
  ASSERT_NE(source, nullptr);
  read(*source, 1);
  set(std::string(kDevice3) + "3 nvlink_transmit 3000\n3 nvlink_receive 500\n");
  EXPECT_THAT(
      read(*source, 3),
      UnorderedElementsAre(
          Pair("device3/utilization_percent", 97), Pair("device3/memory_utilization_percent", 41),
          Pair("device3/memory_total_bytes", 85'899'345'920),
          Pair("device3/memory_used_bytes", 1'073'741'824), Pair("device3/power_watts", 312.5),
          Pair("device3/power_limit_watts", 700), Pair("device3/energy_joules_total", 5),
          Pair("device3/temperature_celsius", 61), Pair("device3/memory_temperature_celsius", 75),
          Pair("device3/sm_clock_hertz", 1.98e9), Pair("device3/memory_clock_hertz", 2.619e9),
          Pair("device3/ecc_corrected_total", 2), Pair("device3/ecc_uncorrected_total", 0),
          Pair("device3/pcie_replays_total", 4), Pair("device3/clocks_event_reasons", 68),
          Pair("device3/pcie_transmit_bytes_per_second", 1.5e6),
          Pair("device3/pcie_receive_bytes_per_second", 2e4),
          Pair("device3/nvlink_transmit_bytes_per_second", 1'024'000),
          Pair("device3/nvlink_receive_bytes_per_second", 0), Pair("device3/lost", 0),
          Pair("device3/xid_errors_total", 0)));
}

TEST_F(NvmlTest, OnlyDevicesOfTheRunAreRead) {
  set("0 present 1\n0 power 1000\n1 present 1\n1 power 2000\n2 present 1\n2 power 3000\n");
  const auto source = nvml_source({{0, ""}, {2, "GPU-fake-2"}}, LOCKSTEP_FAKE_NVML_NEW);
  const Readings readings = read(*source);
  EXPECT_EQ(readings.at("device0/power_watts"), 1);
  EXPECT_EQ(readings.at("device2/power_watts"), 3);
  EXPECT_FALSE(readings.contains("device1/power_watts"));
}

TEST_F(NvmlTest, AValueThatADeviceDoesNotSupportIsAbsent) {
  set("0 present 1\n0 power 1000\n");
  const auto source = nvml_source({{0, ""}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_THAT(read(*source),
              UnorderedElementsAre(Pair("device0/power_watts", 1), Pair("device0/lost", 0),
                                   Pair("device0/xid_errors_total", 0)));
}

TEST_F(NvmlTest, ALibraryThatLacksFunctionsHasTheValuesOfTheOthers) {
  set(kDevice3);
  const auto source = nvml_source({{3, ""}}, LOCKSTEP_FAKE_NVML_OLD);
  ASSERT_NE(source, nullptr);
  const Readings readings = read(*source);
  EXPECT_EQ(readings.at("device3/power_watts"), 312.5);
  EXPECT_EQ(readings.at("device3/clocks_event_reasons"), 68) << "by its older name";
  for (const char* missing : {"power_limit_watts", "energy_joules_total", "xid_errors_total",
                              "memory_temperature_celsius"})
    EXPECT_FALSE(readings.contains(std::string("device3/") + missing)) << missing;
}

TEST_F(NvmlTest, ChangesOfMemoryErrorsAreSeen) {
  set("0 present 1\n0 ecc_corrected 0\n0 ecc_uncorrected 0\n");
  const auto source = nvml_source({{0, ""}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_EQ(read(*source).at("device0/ecc_uncorrected_total"), 0);
  set("0 present 1\n0 ecc_corrected 5\n0 ecc_uncorrected 1\n");
  const Readings after = read(*source, 2);
  EXPECT_EQ(after.at("device0/ecc_corrected_total"), 5);
  EXPECT_EQ(after.at("device0/ecc_uncorrected_total"), 1);
}

TEST_F(NvmlTest, XidErrorsAreCountedForTheirDeviceAndTheLastOneIsKept) {
  set("0 present 1\n1 present 1\n");
  const auto source = nvml_source({{0, ""}, {1, ""}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_FALSE(read(*source).contains("device1/xid_last"));
  set("0 present 1\n1 present 1\n1 xid 31\n");
  EXPECT_EQ(read(*source, 2).at("device1/xid_last"), 31);
  set("0 present 1\n1 present 1\n1 xid 48\n");
  read(*source, 3);
  const Readings later = read(*source, 4);
  EXPECT_EQ(later.at("device1/xid_last"), 48);
  EXPECT_EQ(later.at("device1/xid_errors_total"), 2);
  EXPECT_EQ(later.at("device0/xid_errors_total"), 0);
  EXPECT_FALSE(later.contains("device0/xid_last"));
}

TEST_F(NvmlTest, ADeviceThatFellOffTheBusSaysOnlyThatAndTheOthersGoOn) {
  const std::string both = "0 present 1\n0 power 1000\n1 present 1\n1 power 2000\n";
  set(both);
  const auto source = nvml_source({{0, ""}, {1, ""}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_EQ(read(*source).at("device0/lost"), 0);
  set(both + "0 lost 1\n0 xid 79\n");
  for (int second = 2; second < 4; ++second)
    EXPECT_THAT(
        read(*source, second),
        UnorderedElementsAre(Pair("device0/lost", 1), Pair("device0/xid_errors_total", 1),
                             Pair("device0/xid_last", 79), Pair("device1/lost", 0),
                             Pair("device1/power_watts", 2), Pair("device1/xid_errors_total", 0)));
  set(both);
  EXPECT_EQ(read(*source, 5).at("device0/lost"), 0) << "it was reset";
  EXPECT_EQ(read(*source, 6).at("device0/power_watts"), 1);
}

TEST_F(NvmlTest, ADeviceThatWasLostBeforeTheRunSaysSo) {
  set("0 present 1\n0 lost 1\n");
  const auto source = nvml_source({{0, ""}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_THAT(read(*source), ElementsAre(Pair("device0/lost", 1)));
}

// NVML answers a search by UUID so if any GPU of the machine is lost.
TEST_F(NvmlTest, ADeviceThatIsNotFoundByItsUuidIsNotSaidToBeLost) {
  set("0 present 1\n0 lost 1\n");
  const auto source = nvml_source({{0, "GPU-fake-0"}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_THAT(read(*source), IsEmpty());
}

TEST_F(NvmlTest, ADeviceThatNvmlDoesNotKnowHasNoReadings) {
  set("0 present 1\n");
  const auto source = nvml_source({{7, ""}, {1, "GPU-of-another-machine"}}, LOCKSTEP_FAKE_NVML_NEW);
  EXPECT_THAT(read(*source), IsEmpty());
}

TEST_F(NvmlTest, WithoutTheLibraryOrWithAnotherOneThereIsNoSource) {
  EXPECT_EQ(nvml_source({{0, ""}}, "libno-such-nvml.so"), nullptr);
  EXPECT_EQ(nvml_source({{0, ""}}, "libc.so.6"), nullptr);
}

TEST_F(NvmlTest, AMachineWithNvmlReadsNoCardsOfAmd) {
  set("0 present 1\n0 power 1000\n");
  const auto sources = device_sources({{0, ""}}, LOCKSTEP_FAKE_NVML_NEW, folder_);
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_EQ(read(*sources[0]).at("device0/power_watts"), 1);
  EXPECT_TRUE(device_sources({}, LOCKSTEP_FAKE_NVML_NEW, folder_).empty());
}

TEST_F(NvmlTest, ACardOfAmdIsReadFromTheFilesOfItsDriver) {
  const auto write = [&](const std::filesystem::path& file, const std::string& content) {
    const auto path = folder_ / "sys/bus/pci/drivers/amdgpu" / file;
    ASSERT_TRUE(make_folders(path.parent_path()));
    ASSERT_TRUE(write_file(path, content));
  };
  write("bind", "");
  write("0000:03:00.0/gpu_busy_percent", "12\n");
  write("0000:83:00.0/gpu_busy_percent", "88\n");
  write("0000:83:00.0/mem_busy_percent", "30\n");
  write("0000:83:00.0/mem_info_vram_used", "1000\n");
  write("0000:83:00.0/mem_info_vram_total", "4000\n");
  write("0000:83:00.0/hwmon/hwmon4/power1_average", "250000000\n");
  write("0000:83:00.0/hwmon/hwmon4/power1_cap", "500000000\n");
  write("0000:83:00.0/hwmon/hwmon4/temp1_input", "65000\n");
  write("0000:83:00.0/hwmon/hwmon4/temp3_input", "80500\n");
  write("0000:83:00.0/hwmon/hwmon4/freq1_input", "2100000000\n");
  write("0000:83:00.0/ras/umc_err_count", "ue: 1\nce: 6\n");
  const auto sources = device_sources({{1, ""}, {5, ""}}, "libno-such-nvml.so", folder_);
  ASSERT_EQ(sources.size(), 1u);
  EXPECT_THAT(
      read(*sources[0]),
      UnorderedElementsAre(
          Pair("device1/utilization_percent", 88), Pair("device1/memory_utilization_percent", 30),
          Pair("device1/memory_used_bytes", 1000), Pair("device1/memory_total_bytes", 4000),
          Pair("device1/power_watts", 250), Pair("device1/power_limit_watts", 500),
          Pair("device1/temperature_celsius", 65), Pair("device1/memory_temperature_celsius", 80.5),
          Pair("device1/sm_clock_hertz", 2.1e9), Pair("device1/ecc_uncorrected_total", 1),
          Pair("device1/ecc_corrected_total", 6)));
}

}  // namespace
}  // namespace lockstep::telemetry
