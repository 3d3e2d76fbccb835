#include "comm/probe/tune.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <numeric>

#include "base/check.h"
#include "base/format.h"
#include "comm/choice/choose.h"
#include "comm/cost/fit.h"

namespace lockstep::comm {
namespace {

// A turn is this long because many networks permit a burst that is faster than the sustained rate
// (a token bucket). Between its turns a plan would find it refilled.
constexpr double kSecondsForPlan = 0.2, kSecondsOfTurn = 0.02;
constexpr int kTurnsLeast = 7, kTurnsMost = 21, kCallsMost = 1000;
// For slow calls, plans that take this factor longer than the fastest are measured only once.
constexpr double kLong = 0.01, kAbandonRatio = 2.5;
// A plan must take this much less time than the plan with the cheapest prediction, in this share of
// the rounds. One of 16 equally fast plans does so in seven rounds, and one of 75 in 21.
constexpr double kTimeRatioMax = 0.95, kWinShareMin = 0.75;
constexpr std::size_t kBytesInAll = 64 << 20;

// Delays in the other half had other causes on this host or its network.
double median_of_better_half(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.resize((values.size() + 1) / 2);
  return median(std::move(values));
}

// True if no rank can end such a call before all have begun it. Then consecutive calls take as long
// as single ones.
bool synchronizes_all_ranks(Operation operation) {
  return operation != Operation::broadcast && operation != Operation::reduce;
}

// The input is a rank's share. Where each rank has a block for each other, it is all of them. The
// same holds for the output.
class TuningCalls {
 public:
  static Result<TuningCalls> create(Operation operation, std::size_t bytes, Communicator& world) {
    const auto all = bytes * static_cast<std::size_t>(world.size());
    const bool scatters = operation == Operation::reduce_scatter;
    const bool gathers = operation == Operation::all_gather;
    auto input = TRY(allocate(world, scatters ? all : gathers ? bytes : 0));
    auto output = TRY(allocate(world, gathers ? all : bytes));
    return TuningCalls(operation, std::move(input), std::move(output));
  }

  Result<void> make(Communicator& group) {
    const auto in = input_.span(), out = output_.span();
    constexpr auto kType = DataType::float32;
    constexpr auto kOp = ReduceOp::sum;
    constexpr auto kMode = CallMode::blocking;
    switch (operation_) {
      case Operation::all_reduce:
        return group.all_reduce(out, kType, kOp, kMode).wait();
      case Operation::reduce:
        return group.reduce(out, kType, kOp, 0, kMode).wait();
      case Operation::reduce_scatter:
        return group.reduce_scatter(in, out, kType, kOp, kMode).wait();
      case Operation::all_gather:
        return group.all_gather(in, out, kMode).wait();
      case Operation::broadcast:
        return group.broadcast(out, 0, kMode).wait();
      default:
        LS_CHECK(false);  // not in kTunedOperations
        return {};
    }
  }

 private:
  TuningCalls(Operation operation, Buffer input, Buffer output)
      : operation_(operation), input_(std::move(input)), output_(std::move(output)) {}
  static Result<Buffer> allocate(Communicator& world, std::size_t bytes) {
    if (bytes == 0) return Buffer();
    return world.allocate(Bytes(static_cast<std::int64_t>(bytes)));
  }

  Operation operation_;
  Buffer input_, output_;
};

class Tuning {
 public:
  Tuning(const JoinedWorld& joined, Operation operation, const ProbeProgress& progress)
      : joined_(joined), world_(*joined.world), operation_(operation), progress_(progress) {}

  Result<void> measure(TunedSize& size) {
    auto calls = TRY(TuningCalls::create(operation_, size.bytes, world_));
    std::vector<PlanTimings> turns;
    for (const auto& plan : size.plans) {
      TRY(time(plan.plan, calls, 1));  // sets up pages and routes
      turns.push_back({TRY(time(plan.plan, calls, 1)), 1, {}});
    }
    const auto contenders = select_contenders(turns);
    TRY(measure_rounds(size, calls, turns, contenders));
    const auto predicted = std::ranges::find_if(size.plans, &TunedPlan::predicted_best);
    const auto& standard = turns[static_cast<std::size_t>(predicted - size.plans.begin())];
    for (std::size_t i = 0; i < size.plans.size(); ++i) {
      size.plans[i].measured = Seconds(
          turns[i].seconds.empty() ? turns[i].at_first : median_of_better_half(turns[i].seconds));
      size.plans[i].wins = turns[i].wins_over(standard);
    }
    return {};
  }

 private:
  // All members are equal on all ranks.
  struct PlanTimings {
    double at_first;              // seconds of a call
    int calls;                    // of each turn
    std::vector<double> seconds;  // of a call in each round; none: it is not measured in rounds

    double wins_over(const PlanTimings& other) const {
      if (seconds.empty()) return 0;
      std::size_t wins = 0;
      for (std::size_t round = 0; round < seconds.size(); ++round)
        if (seconds[round] < (other.seconds.empty() ? other.at_first : other.seconds[round]))
          ++wins;
      return static_cast<double>(wins) / static_cast<double>(seconds.size());
    }
  };

  // Selects the plans to measure in rounds, and sets their number of calls.
  std::vector<std::size_t> select_contenders(std::vector<PlanTimings>& turns) const {
    const double least = std::ranges::min_element(turns, {}, &PlanTimings::at_first)->at_first;
    std::vector<std::size_t> contenders;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const double once = turns[i].at_first;
      if (once > kLong && once > kAbandonRatio * least) continue;
      const double filling = kSecondsOfTurn / std::max(once, 1e-9);
      if (synchronizes_all_ranks(operation_))
        turns[i].calls = static_cast<int>(std::clamp<double>(filling, 1, kCallsMost));
      contenders.push_back(i);
    }
    return contenders;
  }

  // Measures each plan once a round; each round begins with a different plan.
  Result<void> measure_rounds(const TunedSize& size, TuningCalls& calls,
                              std::vector<PlanTimings>& turns,
                              const std::vector<std::size_t>& contenders) {
    double longest = 0;
    for (const auto i : contenders) longest = std::max(longest, turns[i].at_first * turns[i].calls);
    const auto rounds = static_cast<std::size_t>(
        std::clamp<double>(kSecondsForPlan / std::max(longest, 1e-9), kTurnsLeast, kTurnsMost));
    for (std::size_t round = 0; round < rounds; ++round)
      for (std::size_t k = 0; k < contenders.size(); ++k) {
        const auto i = contenders[(round + k) % contenders.size()];
        turns[i].seconds.push_back(TRY(time(size.plans[i].plan, calls, turns[i].calls)));
      }
    return {};
  }

  // The time of one call in a sequence of `count`, of the slowest rank; the same on all.
  Result<double> time(const CallPlan& plan, TuningCalls& calls, int count) {
    progress_(format("measuring {} by {}", text(operation_), text(plan)));
    auto& group = *TRY(group_of(plan));
    TRY(group.barrier(CallMode::blocking).wait());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) TRY(calls.make(group));
    std::array<double, 1> seconds = {Seconds(std::chrono::steady_clock::now() - begin).count()};
    TRY(group
            .all_reduce(std::as_writable_bytes(std::span(seconds)), DataType::float64,
                        ReduceOp::max, CallMode::blocking)
            .wait());
    return seconds[0] / count;
  }

  // Returns a group that uses this plan for every call that the plan supports.
  Result<Communicator*> group_of(const CallPlan& plan) {
    for (const auto& [known, group] : groups_)
      if (known == plan) return group.get();
    std::vector<int> all(static_cast<std::size_t>(world_.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto name = format("tune-{}-{}", text(operation_), text(plan));
    groups_.emplace_back(plan, TRY(joined_.group(name, all, text(plan))));
    return groups_.back().second.get();
  }

  const JoinedWorld& joined_;
  Communicator& world_;
  const Operation operation_;
  const ProbeProgress& progress_;
  std::vector<std::pair<CallPlan, std::unique_ptr<Communicator>>> groups_;
};

}  // namespace

std::optional<double> TunedSize::ratio() const {
  std::optional<Seconds> chosen, least;
  for (const auto& plan : plans) {
    if (!plan.measured) return std::nullopt;
    if (plan.chosen) chosen = plan.measured;
    least = std::min(least.value_or(*plan.measured), *plan.measured);
  }
  if (!chosen || least->count() <= 0) return std::nullopt;
  return *chosen / *least;
}

std::vector<std::size_t> tuned_sizes(Operation operation, int ranks) {
  const bool has_blocks =
      operation == Operation::all_gather || operation == Operation::reduce_scatter;
  const std::size_t blocks = has_blocks ? static_cast<std::size_t>(ranks) : 1;
  std::vector<std::size_t> sizes = {8, 64, 512};
  for (std::size_t bytes = 4 << 10; bytes * blocks <= kBytesInAll; bytes *= 4)
    sizes.push_back(bytes);
  return sizes;
}

std::vector<TunedCall> select_tuned_calls(std::span<const TunedSize> sizes) {
  std::vector<TunedCall> calls;
  for (const TunedSize& size : sizes) {
    const auto predicted = std::ranges::find_if(size.plans, &TunedPlan::predicted_best);
    if (predicted == size.plans.end() || !predicted->measured) continue;
    const TunedPlan* best = &*predicted;
    for (const TunedPlan& plan : size.plans)
      if (plan.wins >= kWinShareMin && *plan.measured < kTimeRatioMax * *predicted->measured &&
          *plan.measured < *best->measured)
        best = &plan;
    calls.push_back({size.bytes, best->plan});
  }
  std::ranges::sort(calls, {}, &TunedCall::bytes);
  return calls;
}

std::vector<TunedSize> predict_all(Operation operation, std::span<const std::size_t> sizes,
                                   const GroupShape& group, const Costs& costs) {
  Costs untuned = costs;
  untuned.tuned.clear();
  std::vector<TunedSize> result;
  for (const auto bytes : sizes) {
    TunedSize size{bytes, {}};
    const CallPlan choice = choose(operation, bytes, group, costs);
    const CallPlan cheapest = choose(operation, bytes, group, untuned);
    for (const auto& plan : fitting_plans(operation, bytes, group))
      size.plans.push_back({.plan = plan,
                            .predicted = predict(plan, operation, bytes, group, costs),
                            .chosen = plan == choice,
                            .predicted_best = plan == cheapest});
    std::stable_sort(size.plans.begin(), size.plans.end(),
                     [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
    result.push_back(std::move(size));
  }
  return result;
}

Result<std::vector<TunedSize>> tune(const JoinedWorld& joined, Operation operation,
                                    std::span<const std::size_t> sizes,
                                    const ProbeProgress& progress) {
  const auto& world = *joined.world;
  auto tuned = predict_all(operation, sizes, shape_of(world.hosts()), world.costs());
  Tuning tuning(joined, operation, progress);
  for (auto& size : tuned) TRY(tuning.measure(size));
  return tuned;
}

}  // namespace lockstep::comm
