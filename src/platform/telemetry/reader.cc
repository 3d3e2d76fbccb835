#include "platform/telemetry/reader.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/steady_clock.h"

namespace lockstep::telemetry {
namespace {

constexpr std::size_t kSamplesMax = 60;
constexpr Duration kEndMax = std::chrono::milliseconds(100);

Duration steady_now() { return MonotonicClock().since_boot(); }

// Moments at the multiples of a period.
class Schedule {
 public:
  explicit Schedule(Duration period) : period_(period) {}

  // A thread that wakes up a little early does not read twice for the same moment.
  Duration until_next() {
    const Duration now = SystemClock().now().time_since_epoch();
    auto next = now / period_ + 1;
    if (next == last_) ++next;
    last_ = next;
    return next * period_ - now;
  }

 private:
  const Duration period_;
  std::int64_t last_ = 0;
};

}  // namespace

class Reader::State {
 public:
  explicit State(Duration period) : period_(period) {}

  void run(const Open& open) {
    begin_reading();
    Sources sources = open();
    end_reading(std::nullopt);
    Schedule schedule(period_);
    while (wait(schedule.until_next())) {
      begin_reading();
      Sample sample{.time = SystemClock().now(), .readings = {}};
      for (const auto& source : sources) source->read(steady_now(), sample.readings);
      end_reading(std::move(sample));
    }
    sources.clear();
    set_ended();
  }
  void set_ended() {
    const Lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void end() {
    const auto until = Deadline::after(kEndMax);
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    while (!ended_ && !until.passed()) changed_.wait_until(mutex_, until);
  }

  std::vector<Sample> take() {
    const Lock lock(mutex_);
    auto taken = std::exchange(samples_, {});
    return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
  }

  Duration hanging() const {
    const Lock lock(mutex_);
    if (!reading_since_) return Duration(0);
    const Duration since = steady_now() - *reading_since_;
    return since > period_ ? since : Duration(0);
  }

 private:
  // False at the end.
  bool wait(Duration pause) {
    const auto until = Deadline::after(pause);
    const Lock lock(mutex_);
    while (!ending_ && !until.passed()) changed_.wait_until(mutex_, until);
    return !ending_;
  }

  void begin_reading() {
    const Lock lock(mutex_);
    reading_since_ = steady_now();
  }

  void end_reading(std::optional<Sample> sample) {
    const Lock lock(mutex_);
    reading_since_.reset();
    if (!sample || sample->readings.empty()) return;
    samples_.push_back(*std::move(sample));
    if (samples_.size() > kSamplesMax) samples_.pop_front();
  }

  const Duration period_;

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  std::deque<Sample> samples_ LS_GUARDED_BY(mutex_);
  std::optional<Duration> reading_since_ LS_GUARDED_BY(mutex_);
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  bool ended_ LS_GUARDED_BY(mutex_) = false;
};

Reader::Reader(Open open, Duration period) : state_(std::make_shared<State>(period)) {
  try {
    std::thread([state = state_, open = std::move(open)] { state->run(open); }).detach();
  } catch (const std::system_error& error) {
    LS_LOG(warning, "no telemetry: a thread for it cannot start: {}", error.what());
    state_->set_ended();
  }
}

Reader::~Reader() { state_->end(); }

std::vector<Sample> Reader::take() { return state_->take(); }

Duration Reader::hanging() const { return state_->hanging(); }

}  // namespace lockstep::telemetry
