#include <chrono>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"
#include "platform/telemetry/host_sources.h"
#include "platform/telemetry/rates.h"

namespace lockstep::telemetry {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class HostTest : public testing::Test {
 protected:
  void write(const std::filesystem::path& file, const std::string& content) {
    ASSERT_TRUE(make_folders((root_ / file).parent_path()));
    ASSERT_TRUE(write_file(root_ / file, content));
  }
  Readings read(Source& source, int second) {
    Readings readings;
    source.read(seconds(second), readings);
    return readings;
  }

  const TemporaryFolder root_;
};

TEST_F(HostTest, AMachineWithoutAnyOfTheFilesHasNoReadings) {
  for (const auto& source : host_sources(root_)) {
    EXPECT_THAT(read(*source, 1), IsEmpty());
    EXPECT_THAT(read(*source, 2), IsEmpty());
  }
}

TEST_F(HostTest, FilesWithOtherContentAreLeftOut) {
  for (const char* file :
       {"proc/stat", "proc/loadavg", "proc/meminfo", "proc/pressure/cpu", "proc/net/dev",
        "proc/diskstats", "proc/self/cgroup", "sys/class/powercap/intel-rapl:0/energy_uj"})
    write(file, "cpu some 1 x\n: \n::\n0::/\nMemTotal:\nsome total=\neth0: a b c\n");
  for (const auto& source : host_sources(root_)) {
    EXPECT_THAT(read(*source, 1), IsEmpty());
    EXPECT_THAT(read(*source, 2), IsEmpty());
  }
}

TEST_F(HostTest, ThisMachineHasReadingsOfProcessorsAndMemory) {
  Readings readings;
  for (const auto& source : host_sources()) source->read(seconds(1), readings);
  EXPECT_GT(readings["memory/total_bytes"], readings["memory/available_bytes"]);
  EXPECT_GT(readings["memory/available_bytes"], 0);
  EXPECT_TRUE(readings.contains("cpu/load1"));
}

TEST_F(HostTest, UtilizationIsTheShareOfTicksThatAreNotIdle) {
  write("proc/loadavg", "2.50 1.00 0.50 3/900 12345\n");
  write("proc/stat", "cpu  100 0 50 800 40 0 0 10 0 0\ncpu0 1 2 3 4 5 6 7 8\n");
  const auto source = cpu_source(root_);
  EXPECT_THAT(read(*source, 1), ElementsAre(Pair("cpu/load1", 2.5)));
  write("proc/stat", "cpu  160 0 60 820 44 0 2 14 0 0\n");
  EXPECT_THAT(read(*source, 2),
              UnorderedElementsAre(Pair("cpu/load1", 2.5), Pair("cpu/utilization_percent", 76),
                                   Pair("cpu/iowait_percent", 4), Pair("cpu/steal_percent", 4)));
}

TEST_F(HostTest, MemoryIsInBytes) {
  write("proc/meminfo",
        "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\nCached: 30 kB\n"
        "SwapTotal: 50 kB\nSwapFree: 20 kB\nHugePages_Total:       0\n");
  EXPECT_THAT(read(*memory_source(root_), 1),
              UnorderedElementsAre(
                  Pair("memory/total_bytes", 1'024'000), Pair("memory/available_bytes", 409'600),
                  Pair("memory/page_cache_bytes", 30'720), Pair("memory/swap_used_bytes", 30'720)));
}

TEST_F(HostTest, PressureIsTheShareOfTheTimeInWhichTasksWaited) {
  write("proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n");
  const auto source = pressure_source(root_);
  EXPECT_THAT(read(*source, 1), IsEmpty());
  write("proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=600000\n");
  EXPECT_THAT(read(*source, 3), UnorderedElementsAre(Pair("pressure/memory_some_percent", 50),
                                                     Pair("pressure/memory_full_percent", 5)));
}

std::string net_dev(int bytes, int errors) {
  const std::string counters = std::to_string(bytes) + " 5 " + std::to_string(errors) +
                               " 7 0 0 0 0 " + std::to_string(3 * bytes) + " 5 1 2 0 0 0 0\n";
  return "Inter-|   Receive                    |  Transmit\n face |bytes packets\n"
         "    lo: " +
         counters + "  eth0:" + counters + "veth1: " + counters;
}

TEST_F(HostTest, TheTrafficIsThatOfNetworkCards) {
  write("proc/net/dev", net_dev(1000, 0));
  ASSERT_TRUE(make_folders(root_ / "sys/class/net/eth0/device"));
  ASSERT_TRUE(make_folders(root_ / "sys/class/net/veth1"));
  write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1000\n");
  write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "0\n");
  const auto source = network_source(root_);
  EXPECT_THAT(read(*source, 1), IsEmpty());
  write("proc/net/dev", net_dev(1500, 4));
  write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "3000\n");
  EXPECT_THAT(read(*source, 3),
              UnorderedElementsAre(Pair("network/eth0/receive_bytes_per_second", 250),
                                   Pair("network/eth0/transmit_bytes_per_second", 750),
                                   Pair("network/eth0/errors_per_second", 2),
                                   Pair("network/eth0/drops_per_second", 0),
                                   Pair("infiniband/mlx5_0_1/receive_bytes_per_second", 4000),
                                   Pair("infiniband/mlx5_0_1/transmit_bytes_per_second", 0)));
}

TEST_F(HostTest, AContainerWithoutACardHasItsInterfaces) {
  write("proc/net/dev", net_dev(1000, 0));
  const auto source = network_source(root_);
  read(*source, 1);
  const Readings readings = read(*source, 2);
  EXPECT_TRUE(readings.contains("network/veth1/receive_bytes_per_second"));
  EXPECT_FALSE(readings.contains("network/lo/receive_bytes_per_second"));
}

TEST_F(HostTest, DisksAreReadWithoutTheirPartitions) {
  ASSERT_TRUE(make_folders(root_ / "sys/block/vda/device"));
  ASSERT_TRUE(make_folders(root_ / "sys/block/loop0"));
  write("proc/diskstats",
        " 254 0 vda 1 0 100 5 1 0 200 5 0 1000 9 0 0\n 254 1 vda1 1 0 100 5 1 0 200 5 0 10 9\n"
        " 7 0 loop0 1 0 100 5 1 0 200 5 0 1000 9\n");
  const auto source = disk_source(root_);
  EXPECT_THAT(read(*source, 1), IsEmpty());
  write("proc/diskstats", " 254 0 vda 1 0 300 5 1 0 240 5 0 1500 9 0 0\n");
  EXPECT_THAT(read(*source, 3),
              UnorderedElementsAre(Pair("disk/vda/read_bytes_per_second", 51'200),
                                   Pair("disk/vda/written_bytes_per_second", 10'240),
                                   Pair("disk/vda/busy_percent", 25)));
}

TEST_F(HostTest, ThePowerOfAPackageIsTheRateOfItsEnergyAlsoWhereTheCounterWraps) {
  const std::string zone = "sys/class/powercap/intel-rapl:0";
  write(zone + "/name", "package-0\n");
  write(zone + "/max_energy_range_uj", "1000000000\n");
  write(zone + "/energy_uj", "900000000\n");
  write("sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  write("sys/class/powercap/intel-rapl:0:1/energy_uj", "1000000\n");
  const auto source = power_source(root_);
  EXPECT_THAT(read(*source, 1), IsEmpty());
  write(zone + "/energy_uj", "100000000\n");
  write("sys/class/powercap/intel-rapl:0:1/energy_uj", "31000000\n");
  EXPECT_THAT(read(*source, 3), UnorderedElementsAre(Pair("cpu/package0_power_watts", 100),
                                                     Pair("cpu/package0_dram_power_watts", 15)));
}

TEST_F(HostTest, TheControlGroupIsTheOneOfThisProcess) {
  write("proc/self/cgroup", "1:cpu:/other\n0::/lockstep/run\n");
  const std::string group = "sys/fs/cgroup/lockstep/run";
  write(group + "/cpu.stat", "usage_usec 1000000\nuser_usec 5\nthrottled_usec 0\n");
  write(group + "/memory.current", "4096\n");
  const auto source = cgroup_source(root_);
  EXPECT_THAT(read(*source, 1), ElementsAre(Pair("cgroup/memory_bytes", 4096)));
  write(group + "/cpu.stat", "usage_usec 7000000\nuser_usec 5\nthrottled_usec 500000\n");
  EXPECT_THAT(read(*source, 3),
              UnorderedElementsAre(Pair("cgroup/memory_bytes", 4096), Pair("cgroup/cpu_cores", 3),
                                   Pair("cgroup/throttled_cores", 0.25)));
}

TEST(Rates, ACounterThatBeginsAgainHasNoRateForThatTime) {
  Rates rates;
  EXPECT_EQ(rates.per_second("x", 10, seconds(1)), std::nullopt);
  EXPECT_EQ(rates.per_second("x", 20, seconds(2)), 10);
  EXPECT_EQ(rates.per_second("x", 5, seconds(3)), std::nullopt);
  EXPECT_EQ(rates.per_second("x", 9, seconds(5)), 2);
  EXPECT_EQ(rates.per_second("x", 10, seconds(5)), std::nullopt) << "no time has passed";
  EXPECT_EQ(rates.per_second("y", 10, seconds(6)), std::nullopt) << "each counter has its own";
}

}  // namespace
}  // namespace lockstep::telemetry
