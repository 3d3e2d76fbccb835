// The telemetry of a node, from its files and a fake NVML to the daemon.
#include <chrono>
#include <filesystem>

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "platform/agent/agent_for_test.h"

namespace lockstep::agent {
namespace {

class TelemetryTest : public AgentTest {
 protected:
  // The library is found by its name, because it is loaded already.
  TelemetryTest() : library_(::dlopen(LOCKSTEP_FAKE_NVML_NEW, RTLD_NOW)) {
    EXPECT_NE(library_, nullptr);
    ::setenv("LOCKSTEP_FAKE_NVML", (root_ / "nvml").c_str(), 1);
    launch_.gpus = true;
    launch_.devices = {1};
    launch_.device_uuids = {"GPU-fake-1"};
    launch_.first_rank = 4;
    launch_.world_size = 5;
    launch_.telemetry_interval = std::chrono::milliseconds(20);
    shell("while ! test -e end; do sleep 0.02; done");
  }
  ~TelemetryTest() override {
    ::unsetenv("LOCKSTEP_FAKE_NVML");
    ::dlclose(library_);
  }

  void set_devices(const std::string& lines) { ASSERT_TRUE(write_file(root_ / "nvml", lines)); }
  void let_ranks_end() { ASSERT_TRUE(write_file(root_ / "end", "")); }
  // The last reading that came; nullopt: none came.
  std::optional<double> last(const std::string& metric) {
    std::optional<double> found;
    for (const auto& item : daemon_.items())
      if (const auto value = item.values.find(metric);
          item.kind == spool::TelemetryKind::telemetry && value != item.values.end())
        found = value->second;
    return found;
  }

  void* library_;
};

TEST_F(TelemetryTest, ReadingsOfTheHostAndOfTheDevicesOfTheRunReachTheDaemon) {
  set_devices(
      "0 present 1\n0 power 1000\n1 present 1\n1 power 250000\n1 utilization 88\n"
      "1 memory_utilization 5\n");
  const Time before = SystemClock().now();
  start();
  EXPECT_TRUE(eventually([&] { return last("device1/power_watts") == 250; })) << agent_log();
  EXPECT_TRUE(eventually([&] { return last("cpu/utilization_percent").has_value(); }));
  set_devices("1 present 1\n1 power 300000\n");
  EXPECT_TRUE(eventually([&] { return last("device1/power_watts") == 300; }));
  let_ranks_end();
  ASSERT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(last("device1/utilization_percent"), 88);
  EXPECT_GT(last("memory/total_bytes"), 0);
  EXPECT_EQ(last("device0/power_watts"), std::nullopt) << "it is no device of the run";
  for (const auto& item : daemon_.items()) {
    if (item.kind != spool::TelemetryKind::telemetry) continue;
    EXPECT_EQ(item.rank, 4);
    EXPECT_GE(item.time, before);
    const Duration off = item.time.time_since_epoch() - std::chrono::seconds(item.step);
    EXPECT_LE(std::chrono::abs(off), std::chrono::milliseconds(500));
  }
}

TEST_F(TelemetryTest, ADriverThatHangsStopsOnlyTheTelemetryOfItsDevices) {
  set_devices("1 present 1\n1 hang 1\n1 power 250000\n");
  start();
  EXPECT_TRUE(eventually([&] { return last("cpu/utilization_percent").has_value(); }));
  let_ranks_end();
  EXPECT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(last("device1/power_watts"), std::nullopt);
}

TEST_F(TelemetryTest, ADeviceThatIsLostIsReportedAndTheRunGoesOn) {
  set_devices("1 present 1\n1 power 250000\n");
  start();
  EXPECT_TRUE(eventually([&] { return last("device1/lost") == 0; }));
  set_devices("1 present 1\n1 power 250000\n1 lost 1\n");
  EXPECT_TRUE(eventually([&] { return last("device1/lost") == 1; }));
  let_ranks_end();
  EXPECT_EQ(finish(), 0) << agent_log();
}

TEST_F(TelemetryTest, ARunOnCoresHasTheTelemetryOfItsHostOnly) {
  set_devices("1 present 1\n1 power 250000\n");
  launch_.gpus = false;
  launch_.device_uuids.clear();
  start();
  EXPECT_TRUE(eventually([&] { return last("cpu/utilization_percent").has_value(); }));
  let_ranks_end();
  EXPECT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(last("device1/power_watts"), std::nullopt);
}

TEST_F(TelemetryTest, ALaunchWithoutAnIntervalHasNone) {
  set_devices("1 present 1\n1 power 250000\n");
  launch_.telemetry_interval = Duration(0);
  let_ranks_end();
  start();
  EXPECT_EQ(finish(), 0) << agent_log();
  EXPECT_EQ(last("memory/total_bytes"), std::nullopt);
}

}  // namespace
}  // namespace lockstep::agent
