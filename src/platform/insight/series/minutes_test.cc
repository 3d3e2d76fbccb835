// Telemetry of nodes that becomes one point for each minute.
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/series/folder_series.h"
#include "platform/insight/series/store_for_test.h"

namespace lockstep::insight::series {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::int64_t kBegin = 1'790'000'040;  // a whole minute

SeriesPoint reading(std::int64_t second, double value) {
  return {kBegin + second, Time(std::chrono::seconds(kBegin + second)), value};
}
Time time_at(std::int64_t second) { return Time(std::chrono::seconds(kBegin + second)); }

class MinutesTest : public ::testing::Test {
 protected:
  void open(const SeriesLimits& limits = {}) {
    store_.reset();
    store_ = open_folder_series(folder_.path(), limits).value();
  }
  void read(const std::vector<SeriesPoint>& points) {
    ASSERT_TRUE(store_->append(batch_of(points, 1, {"power", RunPart::node, 3})));
  }
  // Every append seals; returns when the open points are in segments.
  void seal_all() {
    open({.seal = 1_B});
    ASSERT_TRUE(store_->append(batch_of({point_at(1, 0)}, 1, {.metric = "sealing"})));
    wait_until([&] { return logs() == 1; });
    open();
  }
  std::int64_t logs() const {
    std::int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      count += entry.path().filename().string().starts_with("log-");
    return count;
  }
  static void wait_until(const std::function<bool()>& done) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    while (!done() && !deadline.passed()) std::this_thread::yield();
    ASSERT_TRUE(done());
  }
  std::vector<SeriesPoint> points(RunPart part) {
    return store_
        ->curve({.run = kTestRun,
                 .series = {"power", part, 3},
                 .epoch = {},
                 .range = {},
                 .pixels = 100'000})
        .value()
        .points;
  }

  TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
};

TEST_F(MinutesTest, OldReadingsBecomeTheMeanAndTheExtremesOfEachMinute) {
  open();
  std::vector<SeriesPoint> all;
  for (std::int64_t second = 0; second < 480; ++second)
    all.push_back(reading(second, second == 90 ? 1000 : static_cast<double>(second)));
  read(all);
  seal_all();
  all.clear();
  for (std::int64_t second = 480; second < 600; ++second)
    all.push_back(reading(second, static_cast<double>(second)));
  read(all);
  seal_all();
  EXPECT_THAT(points(RunPart::node), SizeIs(600));
  store_->expire({.nodes = time_at(480)});
  wait_until([&] { return points(RunPart::node).size() == 8 + 120; });
  const auto mean = points(RunPart::node), min = points(RunPart::node_min),
             max = points(RunPart::node_max);
  ASSERT_THAT(min, SizeIs(8));
  ASSERT_THAT(max, SizeIs(8));
  EXPECT_EQ(mean[0].step, kBegin);
  EXPECT_EQ(mean[0].value, 29.5);
  EXPECT_EQ(mean[0].time, time_at(0));
  EXPECT_EQ(min[1].value, 60);
  EXPECT_EQ(max[1].value, 1000);
  EXPECT_EQ(max[7].value, 479);
  EXPECT_EQ(mean[8].value, 480) << "newer ones stay as they were read";
}

TEST_F(MinutesTest, MinutesAreMadeOnceAlsoWhenTheyAreMergedWithNewerReadings) {
  open();
  for (std::int64_t part = 0; part < 8; ++part) {  // eight segments become one
    std::vector<SeriesPoint> all;
    for (std::int64_t second = 0; second < 60; ++second)
      all.push_back(reading(part * 60 + second, static_cast<double>(second)));
    read(all);
    seal_all();
    store_->expire({.nodes = time_at(60 * part)});
  }
  store_->expire({.nodes = time_at(480)});
  wait_until([&] { return points(RunPart::node).size() == 8; });
  wait_until([&] { return points(RunPart::node_max).size() == 8; });
  for (const SeriesPoint& point : points(RunPart::node)) EXPECT_EQ(point.value, 29.5);
  for (const SeriesPoint& point : points(RunPart::node_min)) EXPECT_EQ(point.value, 0);
  for (const SeriesPoint& point : points(RunPart::node_max)) EXPECT_EQ(point.value, 59);
}

TEST_F(MinutesTest, ReadingsThatAreRareOrNewStayAndValuesThatAreNoNumbersCountLeast) {
  open();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  read({reading(0, nan), reading(1, 5), reading(2, 7), reading(61, 1)});
  seal_all();
  read({reading(120, 1), reading(200, 2), reading(300, 3)});
  seal_all();
  store_->expire({.nodes = time_at(60)});
  EXPECT_THAT(points(RunPart::node_min), IsEmpty()) << "its newest reading is not old";
  store_->expire({.nodes = time_at(420)});
  wait_until([&] { return points(RunPart::node).size() == 2 + 3; });
  EXPECT_THAT(points(RunPart::node_min), SizeIs(2));
  EXPECT_TRUE(std::isnan(points(RunPart::node)[0].value));
  EXPECT_EQ(points(RunPart::node_min)[0].value, 5);
  EXPECT_EQ(points(RunPart::node_max)[0].value, 7);
}

}  // namespace
}  // namespace lockstep::insight::series
