#include "platform/telemetry/reader.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>
#include <poll.h>

#include "base/clock.h"

namespace lockstep::telemetry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool eventually(const std::function<bool()>& holds) {
  for (auto deadline = Deadline::after(seconds(30)); !deadline.passed(); ::poll(nullptr, 0, 2))
    if (holds()) return true;
  return holds();
}

// Shared with threads that may outlive their reader.
struct Valve {
  std::atomic<bool> closed{false};
  std::atomic<int> readings{0};
  std::atomic<bool> gone{false};
};

class ValveSource : public Source {
 public:
  explicit ValveSource(std::shared_ptr<Valve> valve) : valve_(std::move(valve)) {}
  ~ValveSource() override { valve_->gone = true; }
  void read(Duration, Readings& readings) override {
    while (valve_->closed) ::poll(nullptr, 0, 1);
    readings["reading"] = ++valve_->readings;
  }

 private:
  const std::shared_ptr<Valve> valve_;
};

Reader::Open open_valve(const std::shared_ptr<Valve>& valve) {
  return [valve] {
    Sources sources;
    sources.push_back(std::make_unique<ValveSource>(valve));
    return sources;
  };
}

TEST(Reader, GivesASampleForEachPeriodAtItsMultiples) {
  const auto valve = std::make_shared<Valve>();
  Reader reader(open_valve(valve), milliseconds(20));
  std::vector<Sample> samples;
  ASSERT_TRUE(eventually([&] {
    for (Sample& sample : reader.take()) samples.push_back(std::move(sample));
    return samples.size() >= 3;
  }));
  for (std::size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(samples[i].readings.at("reading"), static_cast<double>(i + 1)) << "none is lost";
  std::vector<Duration> periods;
  for (const Sample& sample : samples) {
    const double exact = in_seconds(sample.time.time_since_epoch()) / 0.02;
    periods.push_back(Duration(std::llround(exact)));
  }
  for (std::size_t i = 1; i < periods.size(); ++i) EXPECT_GT(periods[i], periods[i - 1]);
}

TEST(Reader, ASourceThatHangsHoldsUpNeitherOtherReadersNorTheOwner) {
  const auto stuck = std::make_shared<Valve>(), well = std::make_shared<Valve>();
  stuck->closed = true;
  Reader other(open_valve(well), milliseconds(5));
  {
    Reader reader(open_valve(stuck), milliseconds(5));
    ASSERT_TRUE(eventually([&] { return reader.hanging() > milliseconds(20); }));
    EXPECT_TRUE(reader.take().empty());
    const int before = well->readings;
    EXPECT_TRUE(eventually([&] { return well->readings > before + 2; }));
    EXPECT_TRUE(eventually([&] { return other.hanging() == Duration(0); }));
  }
  EXPECT_FALSE(stuck->gone) << "its thread was left behind";
  stuck->closed = false;
  EXPECT_TRUE(eventually([&] { return stuck->gone.load(); })) << "it ends when it can";
}

TEST(Reader, OpeningSourcesMayHangToo) {
  const auto valve = std::make_shared<Valve>();
  valve->closed = true;
  {
    Reader reader(
        [valve] {
          while (valve->closed) ::poll(nullptr, 0, 1);
          return open_valve(valve)();
        },
        milliseconds(5));
    EXPECT_TRUE(eventually([&] { return reader.hanging() > milliseconds(20); }));
    valve->closed = false;
    EXPECT_TRUE(eventually([&] { return !reader.take().empty(); }));
  }
  EXPECT_TRUE(eventually([&] { return valve->gone.load(); }))
      << "a thread that answers ends with its reader";
}

TEST(Reader, KeepsTheNewestSamplesForAnOwnerThatIsLate) {
  const auto valve = std::make_shared<Valve>();
  Reader reader(open_valve(valve), milliseconds(1));
  ASSERT_TRUE(eventually([&] { return valve->readings > 70; }));  // the 70th is stored
  const std::vector<Sample> samples = reader.take();
  EXPECT_EQ(samples.size(), 60u);
  EXPECT_GE(samples.back().readings.at("reading"), 70);
}

}  // namespace
}  // namespace lockstep::telemetry
