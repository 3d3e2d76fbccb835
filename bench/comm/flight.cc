// The cost of the flight recorder per operation, in nanoseconds of this thread: begun and ended at
// once, as a blocking call is, and through a queue. The limit is the cost of the clock readings
// that it needs, two and three.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string_view>

#include <time.h>

#include "base/check.h"
#include "comm/flight/label.h"
#include "comm/flight/recorder.h"

namespace lockstep::bench {
namespace {

constexpr int kRounds = 9;
constexpr int kOperations = 200'000;
constexpr std::string_view kNames[] = {"all_reduce"};

// CPU time of this thread, not wall time: other programs may use the processor meanwhile.
double nanoseconds_worked() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double nanoseconds_of(const std::function<void(std::uint64_t)>& operation) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = nanoseconds_worked();
    for (std::uint64_t i = 0; i < kOperations; ++i) operation(i);
    best = std::min(best, (nanoseconds_worked() - begin) / kOperations);
  }
  return best;
}

void print_row(const char* what, double ours, double limit) {
  std::printf(
      "{\"bench\": \"flight\", \"case\": \"%s\", \"unit\": \"ns\", \"ours\": %.1f, "
      "\"limit\": %.1f, \"of_limit\": %.2f}\n",
      what, ours, limit, limit / ours);
}

void measure() {
  comm::FlightRecorder recorder({0, comm::GroupRanks::world(2), "bench", "host"}, {kNames, {}, {}});
  const comm::FlightLabel label("layers.7");
  std::uint64_t sum = 0;
  const auto& clock = comm::TickClock::get();
  const double reading = nanoseconds_of([&](std::uint64_t) { sum += clock.now(); });
  const double blocking = nanoseconds_of([&](std::uint64_t i) {
    recorder.mark_ended(recorder.record_started({.sequence = i, .bytes = 4096}), true, 4096);
  });
  const double queued = nanoseconds_of([&](std::uint64_t i) {
    const auto ticket = recorder.record_queued({.sequence = i, .bytes = 4096});
    recorder.mark_started(ticket);
    recorder.mark_ended(ticket, true, 4096);
  });
  LS_CHECK(sum != 0);  // so that the readings are made
  print_row("a blocking operation", blocking, 2 * reading);
  print_row("a queued operation", queued, 3 * reading);
}

}  // namespace
}  // namespace lockstep::bench

int main() { lockstep::bench::measure(); }
