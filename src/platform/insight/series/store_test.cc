// The store compared with a plain list of points, over restarts, seals and merges.
#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/random.h"
#include "base/temporary_folder_for_test.h"
#include "platform/insight/series/folder_series.h"
#include "platform/insight/series/store_for_test.h"

namespace lockstep::insight::series {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class StoreTest : public ::testing::Test {
 protected:
  void open(const SeriesLimits& limits = {}) {
    store_.reset();
    store_ = open_folder_series(folder_.path(), limits).value();
  }
  Appended append(const PointBatch& batch) {
    truth_.add(batch);
    return store_->append(batch).value();
  }
  // Every append seals; returns when the open points are in segments.
  void seal_all() {
    open({.seal = 1_B});
    append(batch_of({point_at(1, 0)}, 1, {.metric = "sealing"}));
    wait_until([&] { return logs() == 1 && store_->problems().empty(); });
  }
  // Bounded by the test's own time limit.
  static void wait_until(const std::function<bool()>& done) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    while (!done() && !deadline.passed()) std::this_thread::yield();
    ASSERT_TRUE(done());
  }
  std::int64_t logs() const {
    std::int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      count += entry.path().filename().string().starts_with("log-");
    return count;
  }
  std::vector<std::filesystem::path> segments() const {
    std::vector<std::filesystem::path> found;
    std::error_code ignored;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_ / "segments", ignored))
      if (entry.is_regular_file()) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }
  Curve curve(std::optional<std::int64_t> epoch = {}, std::int64_t pixels = 1000) {
    return store_
        ->curve({.run = kTestRun, .series = kLoss, .epoch = epoch, .range = {}, .pixels = pixels})
        .value();
  }
  static std::vector<double> values_of(const std::vector<SeriesPoint>& points) {
    std::vector<double> values;
    for (const SeriesPoint& point : points) values.push_back(point.value);
    return values;
  }

  const TemporaryFolder folder_;
  std::unique_ptr<SeriesStore> store_;
  Truth truth_;
};

// --- Random batches ---

// Late, repeated and re-run steps, odd values, several series.
PointBatch random_batch(Random& random, std::int64_t& step) {
  const auto below = [&](std::uint64_t most) {
    return static_cast<std::int64_t>(random.below(most));
  };
  PointBatch batch{.attempt = {kTestRun, 1 + below(3)}, .source = {}, .series = {}, .points = {}};
  for (int series = 0; series < 3; ++series)
    batch.series.push_back({format("m/{}", series), below(4) == 0 ? RunPart::node : RunPart::rank,
                            static_cast<std::int32_t>(below(2))});
  const double odd[] = {kNaN, kInfinity, -kInfinity, -0.0, 1e300};
  if (below(10) == 0) step = std::max<std::int64_t>(0, step - below(3000));
  for (std::int64_t left = below(400); left > 0; --left) {
    const std::int64_t at = below(20) == 0 ? below(5000) : step += below(3);
    const double value = below(200) == 0 ? odd[below(5)]
                         : below(2) == 0 ? static_cast<double>(static_cast<float>(random.uniform()))
                                         : static_cast<double>(below(100));
    batch.points.push_back({static_cast<std::uint32_t>(below(3)), point_at(at, value)});
  }
  return batch;
}

TEST_F(StoreTest, RandomBatchesComeBackOverSealsMergesAndRestarts) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const SeriesLimits limits{.seal =
                                  Bytes(static_cast<std::int64_t>(1000 + random.below(60'000)))};
    std::int64_t step = 0;
    if (store_) {
      ASSERT_TRUE(store_->remove(kTestRun));
    }
    truth_.clear();
    open(limits);
    for (int i = 0; i < 150; ++i) {
      append(random_batch(random, step));
      if (random.below(30) == 0) open(limits);
      if (random.below(15) == 0)
        for (const auto& [key, points] : truth_.series())
          expect_curve(*store_, truth_, key, static_cast<std::int64_t>(1 + random.below(200)));
    }
    expect_all(*store_, truth_, 997);
    for (const auto& [key, points] : truth_.series()) {
      for (const std::int64_t pixels : {1, 7, 100, 2000, 100'000})
        expect_curve(*store_, truth_, key, pixels);
      for (const StepRange range : {StepRange{100, 300}, {0, 5000}, {1'000'000, 2'000'000}})
        expect_curve(*store_, truth_, key, 50, range);
    }
    ASSERT_THAT(store_->problems(), IsEmpty());
  }
}

TEST_F(StoreTest, ALongCurveKeepsItsSpikesAndItsEnds) {
  open({.seal = 1_MiB});
  Random random(7);
  std::vector<SeriesPoint> points;
  for (std::int64_t step = 0; step < 300'000; ++step) {
    const bool spike = random.below(5000) == 0;
    points.push_back(point_at(10 * step, spike ? 1e6 * random.uniform() : random.uniform()));
    if (random.below(50'000) == 0) points.back().value = kNaN;
    if (points.size() == 10'000) append(batch_of(std::exchange(points, {})));
  }
  seal_all();
  for (const std::int64_t pixels : {1, 10, 300, 1000, 20'000, 100'000})
    expect_curve(*store_, truth_, kLoss, pixels);
  expect_curve(*store_, truth_, kLoss, 100, {1'000'005, 2'999'000});
}

TEST_F(StoreTest, TheSamePointsGiveTheSameCurveWhereverTheyAre) {
  open();
  std::vector<SeriesPoint> points;
  for (std::int64_t step = 0; step < 20'000; ++step)
    points.push_back(point_at(step, static_cast<double>(step * 7919 % 1009)));
  append(batch_of(points));
  const Curve open_curve = curve({}, 2000);
  seal_all();
  const Curve sealed = curve({}, 2000);
  ASSERT_EQ(sealed.points.size(), open_curve.points.size());
  for (std::size_t i = 0; i < sealed.points.size(); ++i)
    ASSERT_TRUE(is_same(sealed.points[i], open_curve.points[i]));
}

// --- Attempts ---

TEST_F(StoreTest, TheNewestAttemptWinsAndOlderOnesStayVisible) {
  open();
  append(batch_of({point_at(1, 10), point_at(2, 20), point_at(3, 30)}, 1));
  append(batch_of({point_at(2, 21), point_at(3, 31), point_at(4, 41)}, 2));
  append(batch_of({point_at(3, 99)}, 1));  // late, of the older attempt
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_THAT(values_of(curve().points), ElementsAre(10, 21, 31, 41));
    EXPECT_THAT(values_of(curve(1).points), ElementsAre(10, 20, 99));
    EXPECT_THAT(values_of(curve(2).points), ElementsAre(21, 31, 41));
    EXPECT_THAT(curve(3).points, IsEmpty());
    expect_all(*store_, truth_, 2);
    seal_all();
  }
}

TEST_F(StoreTest, AStepThatIsLoggedTwiceHasItsLastValueAndKeepsBoth) {
  open();
  append(batch_of({point_at(5, 1), point_at(5, 2), point_at(4, 3), point_at(5, 4)}));
  EXPECT_THAT(values_of(curve().points), ElementsAre(3, 4));
  seal_all();
  append(batch_of({point_at(5, 6)}));
  EXPECT_THAT(values_of(curve().points), ElementsAre(3, 6));
  expect_all(*store_, truth_, 1);
}

TEST_F(StoreTest, StepsAtTheEndsOfTheNumbersAreNoSpecialCase) {
  open();
  using Steps = std::numeric_limits<std::int64_t>;
  const auto timed = [](std::int64_t step, double value) {
    return SeriesPoint{step, Time(), value};
  };
  append(batch_of({timed(Steps::min(), 1), timed(-1, 2), timed(0, 3), timed(Steps::max(), 4)}));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_THAT(values_of(curve({}, 1).points), ElementsAre(1, 4));
    EXPECT_THAT(values_of(curve({}, 1000).points), ElementsAre(1, 2, 3, 4));
    expect_all(*store_, truth_, 1);
    seal_all();
  }
}

// --- Batches ---

TEST_F(StoreTest, ARepeatedBatchIsStoredOnceAlsoAfterARestartAndASeal) {
  open();
  PointBatch batch = batch_of({point_at(1, 1)});
  batch.source = "node-0";
  batch.sequence = 7;
  EXPECT_FALSE(append(batch).repeated);
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_TRUE(store_->append(batch).value().repeated);
    EXPECT_EQ(store_->stored_sequence(kTestRun, "node-0").value(), 7);
    EXPECT_EQ(store_->stored_sequence(kTestRun, "node-1").value(), 0);
    expect_all(*store_, truth_);
    if (restart == 0) open();
    seal_all();
  }
}

TEST_F(StoreTest, BadPointsAreRejectedAloneWithTheirIndex) {
  open({.series = 3});
  PointBatch batch{.attempt = {kTestRun, 1}, .source = {}, .series = {}, .points = {}};
  const std::string names[] = {"a/b",  "",     std::string(257, 'x'),
                               "a\nb", "\xff", std::string(256, 'y')};
  for (const std::string& name : names) batch.series.push_back({.metric = name});
  batch.series.push_back({.metric = "rank", .index = -1});
  batch.series.push_back({.metric = "third"});
  batch.series.push_back({.metric = "fourth"});
  for (std::uint32_t i = 0; i < 10; ++i) batch.points.push_back({i, point_at(i, i)});
  const Appended appended = store_->append(batch).value();
  EXPECT_EQ(appended.stored, 3u);
  EXPECT_EQ(appended.rejected, 7u);
  ASSERT_THAT(appended.reasons, SizeIs(7));
  EXPECT_EQ(appended.reasons[0].index, 1u);
  EXPECT_THAT(appended.reasons[0].reason, HasSubstr("1 to 256 bytes"));
  EXPECT_THAT(appended.reasons[4].reason, HasSubstr("at least 0, got -1"));
  EXPECT_EQ(appended.reasons[5].index, 8u);
  EXPECT_THAT(appended.reasons[5].reason, HasSubstr("a run may have 3 series"));
  EXPECT_THAT(appended.reasons[6].reason, HasSubstr("none with index 9"));
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_THAT(
        store_->metrics(kTestRun).value(),
        ElementsAre(MetricRanks{"a/b", 0}, MetricRanks{"third", 0}, MetricRanks{names[5], 0}));
    open({.series = 3});
    EXPECT_EQ(store_->append(batch).value().rejected, 7u) << "the limit holds after a restart";
  }
}

// --- Lists ---

TEST_F(StoreTest, LatestHasTheLastPointOfTheNewestAttemptOfEachSeries) {
  open();
  for (int rank = 0; rank < 5; ++rank) {
    const SeriesKey key{"loss", RunPart::rank, rank};
    append(batch_of({point_at(9, 1), point_at(10, 2)}, 1, key));
    append(batch_of({point_at(8, 3 + rank)}, 2, key));
  }
  append(batch_of({point_at(1, 100)}, 1, {"cpu", RunPart::node, 3}));
  for (int restart = 0; restart < 2; ++restart) {
    std::vector<SeriesLatest> all;
    std::optional<SeriesKey> after;
    for (bool more = true; more;) {
      const LatestPage page = store_->latest(kTestRun, after, 2).value();
      all.insert(all.end(), page.series.begin(), page.series.end());
      more = page.more;
      after = all.back().series;
    }
    if (restart == 1) all.pop_back();  // the series of seal_all()
    ASSERT_THAT(all, SizeIs(6));
    EXPECT_EQ(all[0].series, (SeriesKey{"cpu", RunPart::node, 3}));
    for (int rank = 0; rank < 5; ++rank) {
      const SeriesLatest& latest = all[static_cast<std::size_t>(rank) + 1];
      EXPECT_EQ(latest.series.index, rank);
      EXPECT_EQ(latest.epoch, 2);
      EXPECT_EQ(latest.count, 3);
      EXPECT_TRUE(is_same(latest.point, point_at(8, 3 + rank)));
    }
    seal_all();
  }
}

// --- Removal ---

TEST_F(StoreTest, ARemovedRunIsGoneAlsoAfterARestartAndMayComeBack) {
  open({.seal = 10'000_B});
  for (int i = 0; i < 20; ++i) append(batch_of(std::vector(100, point_at(i, i))));
  ASSERT_TRUE(store_->remove(kTestRun));
  EXPECT_THAT(curve().points, IsEmpty());
  append(batch_of({point_at(1, 5)}));
  open();
  EXPECT_THAT(values_of(curve().points), ElementsAre(5));
  ASSERT_TRUE(store_->remove(kTestRun));
  open();
  EXPECT_THAT(curve().points, IsEmpty());
  EXPECT_THAT(store_->metrics(kTestRun).value(), IsEmpty());
  wait_until([&] { return segments().empty(); });
}

TEST_F(StoreTest, TheRunsThatGotNoPointsForLongestMakeRoom) {
  open({.seal = 1_B});
  for (int number : {3, 1, 2}) {
    PointBatch batch = batch_of({point_at(1, 1), point_at(2, 2)});
    batch.attempt.run.number = number;
    ASSERT_TRUE(store_->append(batch));
    wait_until([&] { return store_->bytes({"demo", number}) > 0_B && logs() == 1; });
  }
  const Bytes one = store_->bytes({"demo", 1});
  EXPECT_EQ(store_->bytes(), 3 * one);
  EXPECT_THAT(store_->remove_oldest(2 * one).value(), ElementsAre(model::RunId{"demo", 3}));
  EXPECT_THAT(store_->remove_oldest(one + one / 2).value(), ElementsAre(model::RunId{"demo", 1}));
  EXPECT_THAT(store_->remove_oldest(one).value(), IsEmpty());
  EXPECT_EQ(store_->bytes(), one);
}

TEST_F(StoreTest, ARunMayBeRemovedWhileQueriesReadIt) {
  open({.seal = 20'000_B});
  std::atomic<bool> ending = false;
  std::thread reader([&] {
    while (!ending) {
      const Curve some = curve({}, 100);
      for (const SeriesPoint& point : some.points)
        EXPECT_TRUE(is_same(point, point_at(point.step, 1)));
      (void)store_->latest(kTestRun, {}, 10).value();
    }
  });
  for (int round = 0; round < 20; ++round) {
    for (std::int64_t i = 0; i < 20; ++i) {
      std::vector<SeriesPoint> points;
      for (std::int64_t step = 0; step < 300; ++step) points.push_back(point_at(300 * i + step, 1));
      ASSERT_TRUE(store_->append(batch_of(points)));
    }
    ASSERT_TRUE(store_->remove(kTestRun));
  }
  ending = true;
  reader.join();
}

// Its threads wake up about once a second. The time has to pass: it is what the test measures.
TEST_F(StoreTest, AnIdleStoreUsesNoProcessor) {
  open();
  const std::clock_t before = std::clock();  // the processor time of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 2);
}

TEST_F(StoreTest, ASecondProcessIsRefused) {
  open();
  const auto second = open_folder_series(folder_.path());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another process"));
}

TEST_F(StoreTest, QuestionsThatAreTooLargeAreRefused) {
  open();
  EXPECT_FALSE(
      store_->curve({.run = kTestRun, .series = kLoss, .epoch = {}, .range = {}, .pixels = 0}));
  EXPECT_FALSE(store_->curve(
      {.run = kTestRun, .series = kLoss, .epoch = {}, .range = {}, .pixels = 100'001}));
  EXPECT_FALSE(store_->latest(kTestRun, {}, 0));
}

TEST_F(StoreTest, ACurveHasTheExtremesBetweenItsBorders) {
  open();
  std::vector<SeriesPoint> points;
  for (std::int64_t step = 0; step < 1000; ++step)
    points.push_back(point_at(step, static_cast<double>(step * 7 % 10)));
  append(batch_of(points));
  for (int restart = 0; restart < 2; ++restart) {
    CurveQuery query{.run = kTestRun, .series = kLoss, .epoch = {}, .range = {}};
    query.borders = {2, 4, 990};
    const Curve found = store_->curve(query).value();
    std::vector<std::int64_t> steps;
    for (const SeriesPoint& point : found.points) steps.push_back(point.step);
    EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4, 7, 10, 989, 990, 997, 999));
    query.borders = {4, 4};
    EXPECT_FALSE(store_->curve(query));
    seal_all();
  }
}

TEST_F(StoreTest, TheValueOfAStepIsThatOfTheLastStepWithOne) {
  open();
  append(batch_of({point_at(10, 1), point_at(20, 2)}));
  for (int restart = 0; restart < 2; ++restart) {
    append(batch_of({point_at(20, 3), point_at(40, 4)}, 2));
    const auto values =
        store_->values({.run = kTestRun, .series = kLoss, .epoch = {}, .steps = {5, 10, 25, 90}})
            .value();
    EXPECT_THAT(values, ElementsAre(std::nullopt, 1, 3, 4));
    seal_all();
  }
}

}  // namespace
}  // namespace lockstep::insight::series
