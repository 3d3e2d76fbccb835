#include "platform/insight/device_use.h"

#include <chrono>

#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "platform/insight/insight.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::insight {
namespace {

using spool::TelemetryItem;
using spool::TelemetryKind;
using std::chrono::seconds;

constexpr Time kNovember{std::chrono::sys_days{std::chrono::year{2026} / 11 / 20}};
const model::NodeId kUseNode{{{"demo", 1}, 1}, 0};

class DeviceUseTest : public ::testing::Test {
 protected:
  void add(Time time, std::map<std::string, double> values, double share = 1,
           TelemetryKind kind = TelemetryKind::telemetry) {
    const TelemetryItem item{.kind = kind, .time = time, .values = std::move(values)};
    ASSERT_TRUE(database_->transaction(
        [&] { return add_device_use(*database_, kUseNode, {&item, 1}, share); }));
  }
  UseSum sum(const UseFilter& filter = {}) {
    const auto sums = device_use(*database_, filter).value();
    return sums.empty() ? UseSum{} : sums.front();
  }

  std::unique_ptr<store::Database> database_ = store::Database::in_memory().value();
};

TEST_F(DeviceUseTest, EnergyIsPowerTimesTime) {
  for (int second = 0; second <= 60; ++second)
    add(kNovember + seconds(second), {{"device0/power_watts", 300},
                                      {"device1/power_watts", 100},
                                      {"device0/utilization_percent", 97},
                                      {"device1/utilization_percent", second < 30 ? 97 : 2}});
  const DeviceUse use = sum().use;
  EXPECT_DOUBLE_EQ(use.device_joules.value(), 60 * 400);
  EXPECT_DOUBLE_EQ(use.device_seconds.value(), 120);
  EXPECT_DOUBLE_EQ(use.idle_seconds.value(), 31);
  EXPECT_FALSE(use.host_joules) << "no reading is unknown";
  EXPECT_FALSE(use.flops);
}

TEST_F(DeviceUseTest, ACounterBridgesAGapAndPowerDoesNot) {
  add(kNovember, {{"device0/energy_joules_total", 1000},
                  {"device0/power_watts", 300},
                  {"device1/power_watts", 300}});
  add(kNovember + seconds(600), {{"device0/energy_joules_total", 91'000},
                                 {"device0/power_watts", 300},
                                 {"device1/power_watts", 300}});
  EXPECT_DOUBLE_EQ(sum().use.device_joules.value(), 90'000);
  add(kNovember + seconds(601), {{"device0/energy_joules_total", 5}, {"device0/power_watts", 300}});
  EXPECT_DOUBLE_EQ(sum().use.device_joules.value(), 90'300) << "the driver started again";
}

TEST_F(DeviceUseTest, TheHostsEnergyIsSharedByDevices) {
  add(kNovember, {{"cpu/package0_power_watts", 100}, {"cpu/package0_dram_power_watts", 20}}, 0.25);
  add(kNovember + seconds(1),
      {{"cpu/package0_power_watts", 100}, {"cpu/package0_dram_power_watts", 20}}, 0.25);
  EXPECT_DOUBLE_EQ(sum().use.host_joules.value(), 30);
}

TEST_F(DeviceUseTest, ARepeatedSampleCountsOnce) {
  for (int i = 0; i < 3; ++i)
    for (int second = 0; second <= 10; ++second)
      add(kNovember + seconds(second), {{"device0/power_watts", 100}});
  EXPECT_DOUBLE_EQ(sum().use.device_joules.value(), 1000);
}

TEST_F(DeviceUseTest, MonthsAreApart) {
  const Time end{std::chrono::sys_days{std::chrono::year{2026} / 12 / 1}};
  for (int second = -5; second <= 4; ++second)
    add(end + seconds(second), {{"device0/power_watts", 100}});
  const auto sums = device_use(*database_, {.by = {UseColumn::month, UseColumn::run}}).value();
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0].month, "2026-11");
  EXPECT_EQ(sums[0].run, "demo/1");
  EXPECT_DOUBLE_EQ(sums[0].use.device_joules.value() + sums[1].use.device_joules.value(), 900);
  EXPECT_DOUBLE_EQ(sum({.month = "2026-12"}).use.device_joules.value(), 500);
  EXPECT_FALSE(sum({.projects = {{"other"}}}).use.device_joules);
}

TEST_F(DeviceUseTest, FlopsUtilizationIsOfTheTimedSteps) {
  add(kNovember, {{"flops", 5e12}}, 1, TelemetryKind::metrics);
  add(kNovember, {{"flops", 5e12}, {"flops_possible", 1e13}}, 1, TelemetryKind::metrics);
  const DeviceUse use = sum().use;
  EXPECT_DOUBLE_EQ(use.flops.value(), 1e13);
  EXPECT_DOUBLE_EQ(use.flops_timed.value() / use.flops_possible.value(), 0.5);
}

TEST_F(DeviceUseTest, ItemsThatInsightHasStoredCountOnce) {
  const TemporaryFolder folder;
  const auto series = open_folder_series(folder / "series").value();
  Insight insight(*database_, *series);
  std::vector<TelemetryItem> items;
  for (int second = 0; second <= 10; ++second)
    items.push_back({.sequence = second + 1,
                     .kind = TelemetryKind::telemetry,
                     .step = second,
                     .time = kNovember + seconds(second),
                     .values = {{"device0/power_watts", 100}}});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(insight.ingest({"", kUseNode}, items));
  EXPECT_DOUBLE_EQ(sum().use.device_joules.value(), 1000);
}

}  // namespace
}  // namespace lockstep::insight
