// Each figure here is computed by hand.
#include "sim/replay/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/replay/schedule.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kDevices = 8, kOnHost = 4;

Job job(int submitted, int duration, int devices, int line) {
  return {Seconds(submitted), Seconds(duration), devices, line};
}
JobOutcome ran(int started, int ended) { return {Seconds(started), Seconds(ended), 0}; }
UsageSample moment(int at, int held, bool waits, bool scattered = false) {
  return {Seconds(at), held, waits, scattered};
}

// Five jobs on two hosts with four devices, first come first served.
const JobTrace kTrace{"jobs.csv",
                      {job(0, 1000, 4, 2), job(100, 500, 8, 3), job(200, 300, 2, 4),
                       job(300, 2000, 2, 5), job(400, 100, 4, 6)}};
const ReplayResult kReplayed{
    .jobs = {ran(0, 1000), ran(1000, 1500), ran(1500, 1800), ran(1500, 3500), ran(1500, 1600)},
    .moments = {moment(0, 4, false), moment(100, 4, true), moment(200, 4, true),
                moment(300, 4, true), moment(400, 4, true), moment(1000, 8, true),
                moment(1500, 8, false), moment(1600, 4, false), moment(1800, 2, false),
                moment(3500, 0, false)},
    .lost = {}};

std::vector<PartMetrics> metrics() { return metrics_of(kTrace, kReplayed, kDevices, kOnHost); }

TEST(Metrics, WaitsAndStaysOfAllJobs) {
  const PartMetrics whole = metrics().at(0);
  EXPECT_EQ(whole.part, "whole");
  EXPECT_EQ(whole.jobs, 5);
  // 0, 900, 1300, 1200, 1100
  EXPECT_DOUBLE_EQ(*whole.mean_wait_s, 900);
  EXPECT_EQ(*whole.median_wait_s, 1100);
  EXPECT_EQ(*whole.p95_wait_s, 1300);
  EXPECT_EQ(*whole.p99_wait_s, 1300);
  EXPECT_DOUBLE_EQ(*whole.host_wait_s, (0 + 1100) / 2.0);
  EXPECT_DOUBLE_EQ(*whole.gang_wait_s, 900);
  EXPECT_EQ(*whole.gang_p95_wait_s, 900);
  // 1000, 1400, 1600, 3200, 1200
  EXPECT_DOUBLE_EQ(*whole.mean_stay_s, 1680);
  EXPECT_EQ(*whole.median_stay_s, 1400);
  EXPECT_EQ(*whole.p95_stay_s, 3200);
  // The durations are 1000, 600, 600, 2000 and 600 s.
  EXPECT_DOUBLE_EQ(*whole.slowdown, (1 + 1400 / 600.0 + 1600 / 600.0 + 1.6 + 2) / 5);
}

TEST(Metrics, DevicesThatAreHeldAndThatIdleWhileSomebodyWaits) {
  const PartMetrics whole = metrics().at(0);
  EXPECT_DOUBLE_EQ(*whole.utilization, 0.5);   // 4 of 8 up to 400, the last submission
  EXPECT_DOUBLE_EQ(*whole.idle_waiting, 0.5);  // the same four, from 100 on
  EXPECT_DOUBLE_EQ(*whole.scattered, 0);
}

TEST(Metrics, EachHalfHasTheJobsThatWereSubmittedInIt) {
  const PartMetrics first = metrics().at(1), second = metrics().at(2);
  EXPECT_EQ(first.part, "first");
  EXPECT_EQ(first.jobs, 2);
  EXPECT_DOUBLE_EQ(*first.mean_wait_s, 450);
  EXPECT_DOUBLE_EQ(*first.idle_waiting, 0.5);  // 100 to 200
  EXPECT_EQ(second.part, "second");
  EXPECT_EQ(second.jobs, 3);
  EXPECT_DOUBLE_EQ(*second.mean_wait_s, 1200);
  EXPECT_FALSE(second.gang_wait_s.has_value());  // none was submitted in it
  EXPECT_DOUBLE_EQ(*second.idle_waiting, 0.5);
}

TEST(Metrics, DevicesThatIdleCountOnlyWhileSomebodyWaits) {
  ReplayResult replayed = kReplayed;
  replayed.moments[1] = moment(100, 6, true);
  replayed.moments[2] = moment(200, 8, false);
  replayed.moments[3] = moment(300, 8, true);
  const PartMetrics whole = metrics_of(kTrace, replayed, kDevices, kOnHost)[0];
  EXPECT_DOUBLE_EQ(*whole.utilization, (4 + 6 + 8 + 8) / (4 * 8.0));
  EXPECT_DOUBLE_EQ(*whole.idle_waiting, 2 / (2 * 8.0));
}

TEST(Metrics, TimeInWhichTheHeadWaitsForScatteredDevicesIsAShareOfTheWindow) {
  ReplayResult replayed = kReplayed;
  replayed.moments[2].head_fragmented = true;  // 200 to 300 of 400
  EXPECT_DOUBLE_EQ(*metrics_of(kTrace, replayed, kDevices, kOnHost)[0].scattered, 0.25);
}

TEST(Metrics, WhatCannotBeSaidIsLeftOpen) {
  const JobTrace one{"jobs.csv", {job(0, 10, 1, 2)}};
  const ReplayResult replayed{
      .jobs = {ran(0, 10)}, .moments = {moment(0, 1, false), moment(10, 0, false)}, .lost = {}};
  const PartMetrics whole = metrics_of(one, replayed, kDevices, kOnHost)[0];
  EXPECT_DOUBLE_EQ(*whole.mean_wait_s, 0);
  EXPECT_FALSE(whole.utilization.has_value());   // the window has no length
  EXPECT_FALSE(whole.idle_waiting.has_value());  // no job waited
  EXPECT_FALSE(whole.gang_wait_s.has_value());
}

TEST(Schedule, SumsAndDigestAreThoseOfAllStartsAndEnds) {
  const ScheduleSums sums = sums_of(kReplayed);
  EXPECT_EQ(sums.starts_s, 5500);
  EXPECT_EQ(sums.ends_s, 9400);
  // printf '0,1000,1500,1500,1500;1000,1500,1800,3500,1600' | sha256sum
  EXPECT_EQ(sums.sha, "53a79d53dd86");
}

TEST(Schedule, AsCsvItCanBeReadAgainAsATrace) {
  const std::string csv = schedule_csv(kTrace, kReplayed);
  EXPECT_THAT(csv, StartsWith("line,submitted,duration,devices,started,ended,moves\n"
                              "2,0,1000,4,0,1000,0\n"
                              "3,100,500,8,1000,1500,0\n"));
  const JobTrace again = parse_job_trace(csv, "again.csv").value();
  ASSERT_EQ(again.jobs.size(), kTrace.jobs.size());
  EXPECT_EQ(again.jobs[4].submitted, Seconds(400));
  EXPECT_EQ(again.jobs[4].devices, 4);
}

TEST(Schedule, ThePictureShowsWhatIsHeldAndWhatIdles) {
  const std::string svg = usage_svg(kReplayed, kDevices, "fifo");
  EXPECT_THAT(svg, HasSubstr(">fifo<"));
  EXPECT_THAT(svg, HasSubstr(">held<"));
  EXPECT_THAT(svg, HasSubstr(">idle while a job waits<"));
  EXPECT_THAT(svg, HasSubstr(">% of the devices<"));
}

}  // namespace
}  // namespace lockstep::sim
