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

namespace lockstep {
namespace {

// A turn is so long because many networks let a burst pass faster than what follows (a token
// bucket), and between its turns a plan would find it refilled.
constexpr double kSecondsForPlan = 0.2, kSecondsOfTurn = 0.02;
constexpr int kTurnsLeast = 7, kTurnsMost = 21, kCallsMost = 1000;
// Of calls that take long, plans that take so many times as long as the fastest are looked at once.
constexpr double kLong = 0.01, kHopeless = 2.5;
// A plan must take so much less than the one that is predicted to be the cheapest, in such a share
// of the rounds. Of plans that are alike one of 16 does so in seven rounds, one of 75 in 21.
constexpr double kWorthwhile = 0.95, kSurely = 0.75;
constexpr std::size_t kBytesInAll = 64 << 20;

// What is late in the other half was late by something else that this host or its network did.
double median_of_better_half(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.resize((values.size() + 1) / 2);
  return median(std::move(values));
}

// Whether no rank can end such a call before all have begun it, so that calls one after the other
// take as long as each by itself.
bool waits_for_all(Operation operation) {
  return operation != Operation::broadcast && operation != Operation::reduce;
}

// The input is a rank's share or, where each rank has a block for each other,
// all of them; and so is the output.
class Calls {
 public:
  static Result<Calls> create(Operation operation, std::size_t bytes, Communicator& world) {
    const auto all = bytes * static_cast<std::size_t>(world.size());
    const bool scatters = operation == Operation::reduce_scatter;
    const bool gathers = operation == Operation::all_gather;
    auto input = TRY(allocate(world, scatters ? all : gathers ? bytes : 0));
    auto output = TRY(allocate(world, gathers ? all : bytes));
    return Calls(operation, std::move(input), std::move(output));
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
  Calls(Operation operation, Buffer input, Buffer output)
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
  Tuning(const Joined& joined, Operation operation, const ProbeProgress& progress)
      : joined_(joined), world_(*joined.world), operation_(operation), progress_(progress) {}

  Result<void> measure(TunedSize& size) {
    auto calls = TRY(Calls::create(operation_, size.bytes, world_));
    std::vector<Turn> turns;
    for (const auto& plan : size.plans) {
      TRY(time(plan.plan, calls, 1));  // pages and routes are found
      turns.push_back({TRY(time(plan.plan, calls, 1)), 1, {}});
    }
    const auto runners = choose_runners(turns);
    TRY(take_turns(size, calls, turns, runners));
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
  // All of it equal on all ranks.
  struct Turn {
    double at_first;              // seconds of a call
    int calls;                    // of each turn
    std::vector<double> seconds;  // of a call in each round; none: it takes no turns

    double wins_over(const Turn& other) const {
      if (seconds.empty()) return 0;
      std::size_t wins = 0;
      for (std::size_t round = 0; round < seconds.size(); ++round)
        if (seconds[round] < (other.seconds.empty() ? other.at_first : other.seconds[round]))
          ++wins;
      return static_cast<double>(wins) / static_cast<double>(seconds.size());
    }
  };

  // Those that are worth a turn, and how many calls that is.
  std::vector<std::size_t> choose_runners(std::vector<Turn>& turns) const {
    const double least = std::ranges::min_element(turns, {}, &Turn::at_first)->at_first;
    std::vector<std::size_t> runners;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const double once = turns[i].at_first;
      if (once > kLong && once > kHopeless * least) continue;
      const double filling = kSecondsOfTurn / std::max(once, 1e-9);
      if (waits_for_all(operation_))
        turns[i].calls = static_cast<int>(std::clamp<double>(filling, 1, kCallsMost));
      runners.push_back(i);
    }
    return runners;
  }

  // Each once a round; each round begins with another.
  Result<void> take_turns(const TunedSize& size, Calls& calls, std::vector<Turn>& turns,
                          const std::vector<std::size_t>& runners) {
    double longest = 0;
    for (const auto i : runners) longest = std::max(longest, turns[i].at_first * turns[i].calls);
    const auto rounds = static_cast<std::size_t>(
        std::clamp<double>(kSecondsForPlan / std::max(longest, 1e-9), kTurnsLeast, kTurnsMost));
    for (std::size_t round = 0; round < rounds; ++round)
      for (std::size_t k = 0; k < runners.size(); ++k) {
        const auto i = runners[(round + k) % runners.size()];
        turns[i].seconds.push_back(TRY(time(size.plans[i].plan, calls, turns[i].calls)));
      }
    return {};
  }

  // Of one call when so many are made one after the other, of the slowest rank; the same on all.
  Result<double> time(const CallPlan& plan, Calls& calls, int count) {
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

  // A group in which every call that can be carried out by this plan is.
  Result<Communicator*> group_of(const CallPlan& plan) {
    for (const auto& [known, group] : groups_)
      if (known == plan) return group.get();
    std::vector<int> all(static_cast<std::size_t>(world_.size()));
    std::iota(all.begin(), all.end(), 0);
    const auto name = format("tune-{}-{}", text(operation_), text(plan));
    groups_.emplace_back(plan, TRY(joined_.group(name, all, text(plan))));
    return groups_.back().second.get();
  }

  const Joined& joined_;
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

std::vector<TunedCall> worthwhile_calls(std::span<const TunedSize> sizes) {
  std::vector<TunedCall> calls;
  for (const TunedSize& size : sizes) {
    const auto predicted = std::ranges::find_if(size.plans, &TunedPlan::predicted_best);
    if (predicted == size.plans.end() || !predicted->measured) continue;
    const TunedPlan* best = &*predicted;
    for (const TunedPlan& plan : size.plans)
      if (plan.wins >= kSurely && *plan.measured < kWorthwhile * *predicted->measured &&
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

Result<std::vector<TunedSize>> tune(const Joined& joined, Operation operation,
                                    std::span<const std::size_t> sizes,
                                    const ProbeProgress& progress) {
  const auto& world = *joined.world;
  auto tuned = predict_all(operation, sizes, shape_of(world.hosts()), world.costs());
  Tuning tuning(joined, operation, progress);
  for (auto& size : tuned) TRY(tuning.measure(size));
  return tuned;
}

}  // namespace lockstep
