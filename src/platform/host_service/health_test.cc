#include "platform/host_service/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::host_service {
namespace {

using api::HostProblemKind;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Time kNoon = parse_time("2026-11-21T12:00:00Z").value();

// A host without a problem.
api::HostInventory good_host() {
  api::HostInventory host;
  host.memory = 64_GiB;
  host.memory_available = 60_GiB;
  host.disks = {{.path = "/data", .size = 100_GiB, .free = 50_GiB, .shared = ""}};
  host.clock = kNoon;
  return host;
}

// The only problem of a host.
api::HostProblem only_problem(const api::HostInventory& host,
                              const std::optional<ClockReference>& reference = {}) {
  const auto problems = check_health(host, reference);
  EXPECT_EQ(problems.size(), 1u);
  return problems.empty() ? api::HostProblem() : problems.front();
}

TEST(Health, OfAGoodHostHasNoProblem) {
  EXPECT_THAT(check_health(good_host(), ClockReference{kNoon, kNoon}), IsEmpty());
}

TEST(Health, NamesAFullDiskAndItsFolder) {
  auto host = good_host();
  host.disks[0].free = 900_MiB;
  const auto problem = only_problem(host);
  EXPECT_EQ(problem.kind, HostProblemKind::disk_full);
  EXPECT_THAT(problem.detail, HasSubstr("/data has 900.0 MiB free of 100.0 GiB"));
}

TEST(Health, MeasuresASmallDiskByItsSize) {
  auto host = good_host();
  host.disks[0] = {.path = "/dev/shm", .size = 64_MiB, .free = 60_MiB, .shared = ""};
  EXPECT_THAT(check_health(host), IsEmpty());
  host.disks[0].free = 6_MiB;
  EXPECT_EQ(only_problem(host).kind, HostProblemKind::disk_full);
}

TEST(Health, NamesMemoryThatOthersHold) {
  auto host = good_host();
  host.memory_available = 1_GiB;
  EXPECT_EQ(only_problem(host).kind, HostProblemKind::memory_low);
}

TEST(Health, TakesAnUnknownValueForNoProblem) {
  auto host = good_host();
  host.memory_available.reset();
  host.disks.clear();
  EXPECT_THAT(check_health(host), IsEmpty());
}

TEST(Health, AllowsTheClockAllOfTheTimeThatAskingTook) {
  EXPECT_EQ(clock_offset(kNoon, {kNoon - seconds(9), kNoon + seconds(1)}), Duration(0));
  EXPECT_EQ(clock_offset(kNoon, {kNoon + seconds(5), kNoon + seconds(6)}), -seconds(5));
  EXPECT_EQ(clock_offset(kNoon, {kNoon - seconds(6), kNoon - seconds(5)}), seconds(5));
}

TEST(Health, NamesAWrongClockAndItsOffset) {
  const Time later = kNoon + seconds(90);
  const auto problem = only_problem(good_host(), ClockReference{later, later + seconds(10)});
  EXPECT_EQ(problem.kind, HostProblemKind::clock_wrong);
  EXPECT_THAT(problem.detail, HasSubstr("its clock is 1m 30s behind"));
}

TEST(Health, NamesEachFaultOfADevice) {
  auto host = good_host();
  host.device_faults = {"GPU 2 is lost from the PCI bus: reboot the host"};
  const auto problem = only_problem(host);
  EXPECT_EQ(problem.kind, HostProblemKind::device_failed);
  EXPECT_THAT(problem.detail, HasSubstr("GPU 2"));
}

}  // namespace
}  // namespace lockstep::host_service
