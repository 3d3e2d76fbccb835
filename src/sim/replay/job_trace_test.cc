#include "sim/replay/job_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

JobTrace trace_of(const std::string& words) { return parse_job_trace(words, "jobs.csv").value(); }

std::string error_of(const std::string& words) {
  const auto refused = parse_job_trace(words, "jobs.csv");
  EXPECT_EQ(refused.error().code, Code::invalid);
  return refused.error().message;
}

TEST(JobTrace, RowsOfDatesAreSortedByTimeAndThenByTheirPlaceInTheFile) {
  const JobTrace trace = trace_of(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-10-09 07:01:55,66.0,1,66.0,a\n"
      "2017-10-09 06:00:00,10.9,2,20.0,a\n"
      "2017-10-09 07:01:55,5,8,40.0,b\n");
  ASSERT_EQ(trace.jobs.size(), 3u);
  EXPECT_EQ(trace.jobs[0].submitted, Seconds(0));
  EXPECT_EQ(trace.jobs[0].duration, Seconds(10));
  EXPECT_EQ(trace.jobs[0].devices, 2);
  EXPECT_EQ(trace.jobs[0].line, 3);
  EXPECT_EQ(trace.jobs[1].line, 2);
  EXPECT_EQ(trace.jobs[2].line, 4);
  EXPECT_EQ(trace.window(), Seconds(3715));
}

TEST(JobTrace, ColumnsMayStandInAnyOrderAndTimesCountFromTheFirst) {
  const JobTrace trace = trace_of("devices,submitted,end,duration\n4,100,0,60\n2,130,0,30\n");
  EXPECT_EQ(trace.jobs[0].submitted, Seconds(0));
  EXPECT_EQ(trace.jobs[1].submitted, Seconds(30));
  EXPECT_EQ(trace.jobs[0].devices, 4);
}

TEST(JobTrace, MidnightAndMonthsAreCountedAsTheCalendarDoes) {
  const JobTrace trace = trace_of(
      "timestamp,duration,num_gpus\n"
      "2016-02-28 23:59:59,1,1\n"
      "2016-03-01 00:00:00,1,1\n");
  EXPECT_EQ(trace.window(), Seconds(86'401));
}

TEST(JobTrace, AFormThatIsDeclaredSortedIsRefusedWhenItIsNot) {
  EXPECT_THAT(error_of("submitted,duration,devices\n0,1,1\n50,1,1\n49,1,1\n"),
              AllOf(HasSubstr("jobs.csv:4: "), HasSubstr("'submitted'"),
                    HasSubstr("49 comes after 50"), HasSubstr("sort")));
}

TEST(JobTrace, AValueThatCannotBeIsRefusedWithItsPlaceAndWhatWasExpected) {
  struct Case {
    const char* row;
    const char* begin;
  };
  for (const Case& wrong : {
           Case{"0,-5,1", "jobs.csv:3: column 'duration': '-5' is not a number of seconds from 1"},
           Case{"0,0,1", "jobs.csv:3: column 'duration': '0' is not"},
           Case{"0,0.9,1", "jobs.csv:3: column 'duration': '0.9' is not"},
           Case{"0,1e12,1", "jobs.csv:3: column 'duration': '1e12' is not"},
           Case{"0,nan,1", "jobs.csv:3: column 'duration': 'nan' is not"},
           Case{"0,,1", "jobs.csv:3: column 'duration': '' is not"},
           Case{"0,5s,1", "jobs.csv:3: column 'duration': '5s' is not"},
           Case{"0,5,0", "jobs.csv:3: column 'devices': '0' is not a whole number of devices"},
           Case{"0,5,-1", "jobs.csv:3: column 'devices': '-1' is not"},
           Case{"0,5,1.5", "jobs.csv:3: column 'devices': '1.5' is not"},
           Case{"0,5,2000000", "jobs.csv:3: column 'devices': '2000000' is not"},
           Case{"-1,5,1", "jobs.csv:3: column 'submitted': '-1' is not seconds such as 3600"},
           Case{"x,5,1", "jobs.csv:3: column 'submitted': 'x' is not"},
       }) {
    const std::string error =
        error_of(format("submitted,duration,devices\n0,1,1\n{}\n", wrong.row));
    EXPECT_THAT(error, StartsWith(wrong.begin));
    EXPECT_THAT(error, HasSubstr("; correct or remove the row"));
  }
}

TEST(JobTrace, WhatIsNoDateIsRefused) {
  for (const char* time :
       {"2017-02-29 00:00:00", "2017-13-01 00:00:00", "2017-01-01 24:00:00", "2017-01-01 00:60:00",
        "2017-01-01T00:00:00", "2017-1-1 0:0:0", "1507532515", "2017-01-01 00:00:00Z", ""})
    EXPECT_THAT(error_of(format("timestamp,duration,num_gpus\n{},5,1\n", time)),
                AllOf(HasSubstr("jobs.csv:2: "), HasSubstr("'timestamp'"),
                      HasSubstr(format("'{}'", time)), HasSubstr("2017-10-09 07:01:55")));
}

TEST(JobTrace, AHeaderThatLacksColumnsIsRefusedWithTheirNames) {
  EXPECT_THAT(
      error_of("timestamp,duration,gpus\n"),
      AllOf(HasSubstr("jobs.csv:1: "), HasSubstr("lacks 'num_gpus'"),
            HasSubstr("'timestamp', 'duration', 'num_gpus'"), HasSubstr("`lockstep help sim`")));
  EXPECT_THAT(error_of("submitted,gpus\n"),
              StartsWith("jobs.csv:1: the header lacks 'duration', 'devices'"));
}

TEST(JobTrace, HasTwoHalvesByTimeEachOfWhichCountsFromItsFirstJob) {
  const JobTrace trace =
      trace_of("submitted,duration,devices\n10,1,1\n20,2,1\n59,3,1\n60,4,1\n80,5,1\n110,6,1\n");
  const JobTrace first = half_of(trace, Half::first).value();
  const JobTrace second = half_of(trace, Half::second).value();
  ASSERT_EQ(first.jobs.size(), 3u);
  ASSERT_EQ(second.jobs.size(), 3u);
  EXPECT_EQ(first.window(), Seconds(49));
  EXPECT_EQ(second.window(), Seconds(50));
  EXPECT_EQ(second.jobs.front().submitted, Seconds(0));
  EXPECT_EQ(second.jobs.front().line, 5);
}

TEST(JobTrace, OfJobsThatAllCameAtOnceThereIsNoFirstHalf) {
  const JobTrace trace = trace_of("submitted,duration,devices\n5,1,1\n5,1,1\n");
  const auto refused = half_of(trace, Half::first);
  EXPECT_EQ(refused.error().code, Code::invalid);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("jobs.csv: "), HasSubstr("first half")));
  EXPECT_EQ(half_of(trace, Half::second).value().jobs.size(), 2u);
}

TEST(JobTrace, AFileWithoutJobsIsRefused) {
  EXPECT_THAT(error_of("submitted,duration,devices\n"),
              AllOf(HasSubstr("jobs.csv: "), HasSubstr("no job")));
  EXPECT_THAT(error_of(""), HasSubstr("there is no header"));
}

}  // namespace
}  // namespace lockstep::sim
