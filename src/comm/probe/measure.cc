#include "comm/probe/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "comm/cost/fit.h"
#include "comm/reduction/reduction.h"

namespace lockstep::comm {
namespace {

// A message larger than a slot is sent in pieces, as collectives send it.
constexpr std::array<std::size_t, 7> kSizes = {8,         1 << 10, 8 << 10, 64 << 10,
                                               256 << 10, 1 << 20, 4 << 20};
constexpr double kSecondsForSize = 0.1;
constexpr int kRoundsLeast = 5, kRoundsAtOnce = 200;
// Enough rounds for ranks that share processors, whose time slices take milliseconds.
constexpr std::size_t kRoundsMost = 2000;
constexpr int kSeries = 30, kSeriesMessages = 32, kSeriesCalls = 20;
constexpr std::size_t kReducedBytes = 4 << 20;
constexpr int kReductions = 15;

class StopWatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Two messages at the same time, one each way, as in each step of most collectives. A wire that is
// idle after each message, or permits a burst, would otherwise appear faster than it is.
class ExchangeTimer {
 public:
  ExchangeTimer(Communicator& pair, Buffer& buffer) : pair_(pair), buffer_(buffer) {}

  // As many rounds as fit into the time; rank 0 decides that, and after each batch whether to
  // continue.
  Result<Timings> timed(std::size_t bytes) {
    TRY(exchange(bytes));  // sets up pages and routes
    const double first = TRY(exchange(bytes));
    const double wanted = kSecondsForSize / std::max(first, 1e-9);
    const int lot =
        TRY(agree(static_cast<int>(std::clamp<double>(wanted, kRoundsLeast, kRoundsAtOnce))));
    Timings timings{static_cast<double>(bytes), {}};
    const StopWatch watch;
    do {
      for (int i = 0; i < lot; ++i) timings.seconds.push_back(TRY(exchange(bytes)));
    } while (timings.seconds.size() < kRoundsMost &&
             TRY(agree(watch.seconds() < kSecondsForSize ? 1 : 0)) == 1);
    return timings;
  }

  // The interval of small messages that are sent one after the other; a single message takes
  // `latency`.
  Result<double> gap(double latency) {
    std::vector<double> seconds;
    for (int i = 0; i < kSeries; ++i) {
      const StopWatch watch;
      for (const int root : {0, 1}) TRY(send_series(root));
      seconds.push_back(watch.seconds() / 2);
    }
    return std::max(0.0, median(seconds) - latency) / (kSeriesMessages - 1);
  }

 private:
  Result<void> send_series(int root) {
    const auto data = buffer_.span().first(kSizes.front());
    for (int i = 0; i < kSeriesMessages; ++i)
      TRY(pair_.broadcast(data, root, CallMode::blocking).wait());
    return {};
  }

  Result<double> exchange(std::size_t bytes) {
    const auto both = buffer_.span().first(2 * bytes);
    const auto own = both.subspan(static_cast<std::size_t>(pair_.rank()) * bytes, bytes);
    const StopWatch watch;
    TRY(pair_.all_gather(own, both, CallMode::blocking).wait());
    return watch.seconds();
  }

  Result<int> agree(int value) {
    std::memcpy(buffer_.data(), &value, sizeof value);
    TRY(pair_.broadcast(buffer_.span().first(sizeof value), 0, CallMode::blocking).wait());
    std::memcpy(&value, buffer_.data(), sizeof value);
    return value;
  }

  Communicator& pair_;
  Buffer& buffer_;
};

// Copies rank 0's array to every rank, or computes the maximum over all ranks.
Result<void> all_reduce_max(Communicator& group, std::span<double> values) {
  return group
      .all_reduce(std::as_writable_bytes(values), DataType::float64, ReduceOp::max,
                  CallMode::blocking)
      .wait();
}

// The time of an all-reduce of the buffer; no call ends before all ranks have begun it.
Result<double> seconds_of_call(Communicator& group, Buffer& buffer) {
  const StopWatch watch;
  for (int call = 0; call < kSeriesCalls; ++call)
    TRY(group.all_reduce(buffer.span(), DataType::float64, ReduceOp::max, CallMode::blocking)
            .wait());
  return watch.seconds() / kSeriesCalls;
}

}  // namespace

Result<LevelCost> measure_messages(Communicator& pair, const ProbeProgress& progress) {
  LS_CHECK(pair.size() == 2);
  auto buffer = TRY(pair.allocate(Bytes(static_cast<std::int64_t>(2 * kSizes.back()))));
  ExchangeTimer exchanges(pair, buffer);
  std::vector<Timings> sizes;
  for (const auto bytes : kSizes) {
    progress(format("measuring messages of {}",
                    lockstep::text(Bytes(static_cast<std::int64_t>(bytes)))));
    sizes.push_back(TRY(exchanges.timed(bytes)));
  }
  const LinearFit line = fit_line(sizes);
  const double latency = latency_of(line, sizes.front());
  const double gap = TRY(exchanges.gap(latency));
  std::array<double, 3> cost = {latency, std::min(gap, latency / 2), line.per_byte};
  if (pair.rank() != 0) cost = {};
  TRY(all_reduce_max(pair, cost));
  return LevelCost{cost[0], cost[1], cost[2]};
}

Result<LevelCost> measure_concurrent_messages(Communicator& flat, Communicator& doubling,
                                              const ProbeProgress& progress) {
  LS_CHECK(flat.size() == 3 || flat.size() == 4);
  progress("measuring messages among several hosts at once");
  auto buffer = TRY(flat.allocate(Bytes(kSizes.front())));
  std::vector<double> at_once, in_pairs;
  for (int i = 0; i < kSeries; ++i) {
    at_once.push_back(TRY(seconds_of_call(flat, buffer)));
    in_pairs.push_back(TRY(seconds_of_call(doubling, buffer)));
  }
  std::array<double, 2> seconds = {median(at_once), median(in_pairs)};
  TRY(all_reduce_max(flat, seconds));
  // Two rounds; also with three ranks, where one has two partners.
  const double latency = seconds[1] / 2;
  const double overhead = std::max(0.0, seconds[0] - latency) / (2 * (flat.size() - 2));
  return LevelCost{latency, std::min(overhead, latency / 2), 0};
}

Result<double> measure_reduction(Communicator& group) {
  std::vector<float> sum(kReducedBytes / sizeof(float)), other(sum);
  auto* const to = std::as_writable_bytes(std::span(sum)).data();
  const auto* const from = std::as_bytes(std::span(other)).data();
  std::vector<double> seconds;
  for (int i = 0; i < kReductions; ++i) {
    TRY(group.barrier(CallMode::blocking).wait());
    const StopWatch watch;
    combine(to, to, from, sum.size(), DataType::float32, ReduceOp::sum);
    seconds.push_back(watch.seconds());
  }
  std::array<double, 1> per_byte = {median(seconds) / kReducedBytes};
  TRY(all_reduce_max(group, per_byte));
  return per_byte[0];
}

}  // namespace lockstep::comm
