#include "platform/agent/link/heartbeat_sender.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

// A daemon that is away for its first calls, and then stores all items.
class StoringDaemon : public DaemonLink {
 public:
  explicit StoringDaemon(std::size_t refused, double batch_pause)
      : refused_(refused), batch_pause_(batch_pause) {}

  Result<net::UpgradedConnection> open_stream(const std::string&) override {
    return Error{Code::unavailable, "no streams here"};
  }
  Result<api::HeartbeatAnswer> heartbeat(const api::Heartbeat& call, Deadline) override {
    const Lock lock(mutex_);
    items_.push_back(call.items.size());
    times_.push_back(std::chrono::steady_clock::now());
    changed_.notify_all();
    if (items_.size() <= refused_) return Error{Code::unavailable, "away"};
    if (!call.items.empty()) stored_ = call.items.back().sequence;
    api::HeartbeatAnswer answer;
    answer.acknowledged = stored_;
    answer.interval_seconds = 10;  // no call but for more items
    answer.batch_pause_seconds = batch_pause_;
    return answer;
  }
  // The number of items of each of the first calls.
  std::vector<std::size_t> items_of_calls(std::size_t calls) {
    Lock lock(mutex_);
    const Deadline end = Deadline::after(seconds(20));
    while (items_.size() < calls && !end.passed()) changed_.wait_until(mutex_, end);
    return items_;
  }
  Duration shortest_pause() {
    const Lock lock(mutex_);
    Duration least = seconds(60);
    for (std::size_t i = 1; i < times_.size(); ++i)
      least = std::min(least, std::chrono::duration_cast<Duration>(times_[i] - times_[i - 1]));
    return least;
  }

 private:
  const std::size_t refused_;
  const double batch_pause_;
  Mutex mutex_;
  Condition changed_;
  std::vector<std::size_t> items_ LS_GUARDED_BY(mutex_);
  std::vector<std::chrono::steady_clock::time_point> times_ LS_GUARDED_BY(mutex_);
  std::int64_t stored_ LS_GUARDED_BY(mutex_) = 0;
};

std::unique_ptr<HeartbeatSender> sender_with(StoringDaemon& daemon, const TemporaryFolder& folder,
                                             int items, std::size_t size) {
  auto spool = spool::Spool::open(folder.path() / "spool", {}).value();
  for (int i = 0; i < items; ++i)
    (void)spool.add({.kind = spool::TelemetryKind::log, .text = std::string(size, 'x')});
  return HeartbeatSender::start(
             daemon, std::move(spool), {},
             {.heartbeat_interval = milliseconds(200), .refusal_limit = std::chrono::minutes(10)},
             [] { return api::FlightDelivery(); }, ProfileRelay(folder.path()),
             [](const auto&) { return false; })
      .value();
}

TEST(Sender, TheFirstCallAfterAnOutageHasNoItems) {
  const TemporaryFolder folder;
  StoringDaemon daemon(/*refused=*/1, /*batch_pause=*/0);
  const auto sender = sender_with(daemon, folder, 1, 10);
  EXPECT_THAT(daemon.items_of_calls(3), ElementsAre(1, 0, 1));
}

TEST(Sender, ManyItemsComeAtThePaceOfTheDaemon) {
  const TemporaryFolder folder;
  StoringDaemon daemon(/*refused=*/0, /*batch_pause=*/0.05);
  const auto sender = sender_with(daemon, folder, 3, 60 << 10);
  EXPECT_THAT(daemon.items_of_calls(3), ElementsAre(1, 1, 1));
  EXPECT_GE(daemon.shortest_pause(), milliseconds(49));
}

}  // namespace
}  // namespace lockstep::agent
