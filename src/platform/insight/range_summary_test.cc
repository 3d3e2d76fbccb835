#include "platform/insight/detail/range_summary.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep::insight {
namespace {

using ::testing::ElementsAre;

const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

std::vector<RangeSummary> pieces_of(const std::vector<double>& values) {
  std::vector<RangeSummary> pieces;
  for (const double value : values)
    pieces.push_back(summary_of_point({static_cast<std::int64_t>(pieces.size()), Time{}, value}));
  return pieces;
}

std::vector<std::int64_t> steps_of(const std::vector<api::Point>& points) {
  std::vector<std::int64_t> steps;
  for (const api::Point& point : points) steps.push_back(point.step);
  return steps;
}

TEST(Thin, AllPointsAreKeptWhileThereIsRoom) {
  EXPECT_THAT(steps_of(downsample(pieces_of({3, 1, 2}), 3)), ElementsAre(0, 1, 2));
}

TEST(Thin, AStretchKeepsItsFirstLastLeastAndGreatestPoint) {
  const auto pieces = pieces_of({5, 5, -7, 5, 5, 5, 90, 5, 5, 5});
  EXPECT_THAT(steps_of(downsample(pieces, 5)), ElementsAre(0, 2, 6, 9));
}

TEST(Thin, ANaNAndAnInfinityAreKept) {
  const auto pieces = pieces_of({1, 2, kNaN, kNaN, 3, -kInfinity, 4, 5, 6, 7, 8, 9});
  const auto points = downsample(pieces, 5);
  EXPECT_THAT(steps_of(points), ElementsAre(0, 2, 5, 11));
  EXPECT_TRUE(std::isnan(points[1].value));
  EXPECT_EQ(points[2].value, -kInfinity);
}

TEST(Thin, NothingButNaNHasNeitherLeastNorGreatest) {
  EXPECT_THAT(steps_of(downsample(pieces_of({kNaN, kNaN, kNaN, kNaN, kNaN, kNaN}), 3)),
              ElementsAre(0, 5));
}

TEST(Thin, RoomForOnePointIsTheNewest) {
  EXPECT_THAT(steps_of(downsample(pieces_of({3, 1, 2}), 1)), ElementsAre(2));
}

TEST(Thin, NothingBecomesNothing) { EXPECT_TRUE(downsample({}, 10).empty()); }

TEST(Thin, NeverMoreThanAskedForAndAlwaysTheExtremes) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> values;
    for (std::uint64_t i = 0, size = 1 + random.below(400); i < size; ++i)
      values.push_back(static_cast<double>(random.below(1000)));
    const auto most = static_cast<std::int64_t>(5 + random.below(200));
    const auto points = downsample(pieces_of(values), most);
    ASSERT_LE(static_cast<std::int64_t>(points.size()), most);
    ASSERT_EQ(points.back().step, static_cast<std::int64_t>(values.size()) - 1);
    const auto [least, greatest] = std::ranges::minmax(values);
    const auto [found_least, found_greatest] = std::ranges::minmax(points, {}, &api::Point::value);
    ASSERT_EQ(found_least.value, least);
    ASSERT_EQ(found_greatest.value, greatest);
    ASSERT_TRUE(std::ranges::is_sorted(points, std::ranges::less_equal(), &api::Point::step));
  }
}

TEST(Append, APieceOfPiecesKnowsWhatAllOfThemKnew) {
  RangeSummary all;
  for (const RangeSummary& piece : pieces_of({2, kNaN, -1, 8, kNaN})) append_range(all, piece);
  EXPECT_EQ(all.count, 5);
  EXPECT_EQ(all.first.step, 0);
  EXPECT_EQ(all.last.step, 4);
  EXPECT_EQ(all.min->step, 2);
  EXPECT_EQ(all.max->step, 3);
  EXPECT_EQ(all.nan->step, 1);
}

}  // namespace
}  // namespace lockstep::insight
