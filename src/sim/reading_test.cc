// The arguments of lockstep-sim for seeds, and the filter for the part of a trace that concerns a
// run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/seed_range.h"
#include "sim/trace_filter.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

TEST(SeedRange, IsReadAsItIsWritten) {
  const SeedRange range = parse_seed_range("17..5000").value();
  EXPECT_EQ(range.first, 17u);
  EXPECT_EQ(range.last, 5000u);
  EXPECT_EQ(range.text(), "17..5000");
  EXPECT_EQ(parse_seed_range("3..3").value().count(), 1u);
}

TEST(SeedRange, IsRefusedWithTheWayToWriteIt) {
  for (const char* words :
       {"", "17", "5..3", "..", "1..", "..9", "a..b", "1..2..3", "-1..2", "1 ..2"})
    EXPECT_THAT(parse_seed_range(words).error().message, HasSubstr("FROM..TO")) << words;
}

TEST(TraceFilter, ShowsARunAndWhatBefellAll) {
  const TraceFilter filter("demo/3");
  EXPECT_TRUE(filter.shows("0:00:01.000  store              demo/3 is queued: waits"));
  EXPECT_TRUE(filter.shows("0:00:01.000  agent demo/3.1/0   leaves"));
  EXPECT_TRUE(filter.shows("0:00:01.000  daemon             serves"));
  EXPECT_TRUE(filter.shows("0:00:01.000  fault              host b0 dies"));
  EXPECT_FALSE(filter.shows("0:00:01.000  store              demo/31 is queued: waits"));
  EXPECT_FALSE(filter.shows("0:00:01.000  agent other-demo/3.1/0   leaves"));
}

TEST(TraceFilter, WithoutARunShowsAll) {
  EXPECT_TRUE(TraceFilter("").shows("0:00:01.000  store              demo/31 is queued"));
}

}  // namespace
}  // namespace lockstep::sim
