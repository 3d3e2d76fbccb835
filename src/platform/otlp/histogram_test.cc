#include "platform/otlp/histogram.h"

#include <gtest/gtest.h>

namespace lockstep::otlp {
namespace {

TEST(OtlpHistogram, OuterBucketsEndAtTheLeastAndGreatestValue) {
  EXPECT_EQ(bins_of(ExplicitBuckets{{0, 5, 10}, {2, 3, 4, 1}, -7, 12}),
            (Bins{{-7, 0, 5, 10, 12}, {2, 3, 4, 1}}));
}

TEST(OtlpHistogram, OuterBucketsWithoutExtremesAreAsWideAsTheirNeighbours) {
  EXPECT_EQ(bins_of(ExplicitBuckets{{0, 5, 20}, {2, 3, 4, 1}, {}, {}}),
            (Bins{{-5, 0, 5, 20, 35}, {2, 3, 4, 1}}));
  EXPECT_EQ(bins_of(ExplicitBuckets{{3}, {2, 1}, {}, {}}), (Bins{{2, 3, 4}, {2, 1}}));
}

TEST(OtlpHistogram, OuterBucketsWithoutValuesAreLeftOut) {
  EXPECT_EQ(bins_of(ExplicitBuckets{{0, 5, 10}, {0, 3, 4, 0}, 1, 9}), (Bins{{0, 5, 10}, {3, 4}}));
}

TEST(OtlpHistogram, BucketsThatSayNothingAreNone) {
  EXPECT_EQ(bins_of(ExplicitBuckets{{}, {4}, 1, 2}), std::nullopt);
  EXPECT_EQ(bins_of(ExplicitBuckets{{0, 5}, {0, 0, 0}, {}, {}}), std::nullopt);
  EXPECT_EQ(bins_of(ExplicitBuckets{{0, 5}, {1, 1}, {}, {}}), std::nullopt) << "a count is missing";
  EXPECT_EQ(bins_of(ExponentialBuckets{}), std::nullopt);
}

TEST(OtlpHistogram, ExponentialBucketsArePowersOfTheBase) {
  EXPECT_EQ(bins_of(ExponentialBuckets{.scale = 0, .positive = {1, {3, 0, 2}}}),
            (Bins{{2, 4, 8, 16}, {3, 0, 2}}));
  EXPECT_EQ(bins_of(ExponentialBuckets{.scale = -1, .positive = {-1, {3, 2}}}),
            (Bins{{0.25, 1, 4}, {3, 2}}));
}

TEST(OtlpHistogram, ZeroIsBetweenNegativeAndPositiveValues) {
  EXPECT_EQ(bins_of(ExponentialBuckets{
                .scale = 0, .zero_count = 7, .positive = {1, {3}}, .negative = {0, {1, 2}}}),
            (Bins{{-4, -2, -1, 2, 4}, {2, 1, 7, 3}}));
  EXPECT_EQ(bins_of(ExponentialBuckets{.scale = 0, .zero_count = 7, .positive = {1, {3}}}),
            (Bins{{0, 2, 4}, {7, 3}}));
  EXPECT_EQ(bins_of(ExponentialBuckets{.scale = 0, .zero_count = 7, .negative = {0, {1}}}),
            (Bins{{-2, -1, 0}, {1, 7}}));
  EXPECT_EQ(bins_of(ExponentialBuckets{.scale = 0, .zero_count = 7}), (Bins{{-0.5, 0.5}, {7}}));
}

}  // namespace
}  // namespace lockstep::otlp
