#include "comm/cost/fit.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep::comm {
namespace {

std::vector<Timings> timed(double latency, double per_byte) {
  std::vector<Timings> sizes;
  for (double bytes = 8; bytes <= 4 << 20; bytes *= 8)
    sizes.push_back({bytes, {latency + bytes * per_byte}});
  return sizes;
}

TEST(Fit, FindsLatencyAndBandwidthOfExactTimes) {
  const auto line = fit_line(timed(20e-6, 1e-9));
  EXPECT_NEAR(line.intercept, 20e-6, 1e-9);
  EXPECT_NEAR(line.per_byte, 1e-9, 1e-12);
}

TEST(Fit, LateMessagesDoNotMoveIt) {
  auto sizes = timed(20e-6, 1e-9);
  Random random(1);
  for (Timings& size : sizes) {
    const double good = size.seconds.front();
    for (int i = 0; i < 8; ++i) {
      const double noise = 1 + 0.01 * static_cast<double>(random.below(5));
      size.seconds.push_back(i % 3 == 0 ? good * 50 : good * noise);
    }
  }
  const auto line = fit_line(sizes);
  EXPECT_NEAR(line.intercept, 20e-6, 2e-6);
  EXPECT_NEAR(line.per_byte, 1e-9, 1e-10);
}

TEST(Fit, NeitherConstantIsEverNegative) {
  // Larger messages that were faster, and a curve that bends upwards.
  const auto falling = fit_line(std::vector<Timings>{{8, {10e-6}}, {1e6, {5e-6}}});
  EXPECT_EQ(falling.per_byte, 0);
  EXPECT_GT(falling.intercept, 5e-6);
  const auto steep = fit_line(std::vector<Timings>{{1000, {1e-9}}, {1e6, {1e-3}}});
  EXPECT_EQ(steep.intercept, 0);
  EXPECT_GT(steep.per_byte, 0);
}

TEST(Fit, TheLatencyIsThatOfTheSmallestMessageWhereLargeOnesBendTheLine) {
  const Timings smallest{1000, {2e-6, 1e-6, 9e-6}};
  EXPECT_EQ(latency_of({1.5e-6, 1e-9}, smallest), 1.5e-6);
  EXPECT_EQ(latency_of({7e-6, 1e-9}, smallest), 2e-6);
  EXPECT_EQ(latency_of({0, 1e-9}, smallest), 2e-6) << "no message takes no time";
}

TEST(Fit, OfOneSizeTheLatencyIsAll) {
  EXPECT_EQ(fit_line(std::vector<Timings>{{8, {3e-6, 1e-6, 2e-6}}}), (LinearFit{2e-6, 0}));
  EXPECT_EQ(fit_line(std::vector<Timings>{{8, {2e-6}}, {8, {2e-6}}}).per_byte, 0);
}

TEST(Fit, TimesOfZeroAreTaken) {
  const auto line = fit_line(std::vector<Timings>{{8, {0.0}}, {1e6, {1e-3}}});
  EXPECT_GE(line.intercept, 0);
  EXPECT_GE(line.per_byte, 0);
}

}  // namespace
}  // namespace lockstep::comm
