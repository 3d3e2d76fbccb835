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

constexpr double kSecondsForPlan = 0.2;
constexpr int kRepeatsLeast = 3, kRepeatsMost = 50;

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
    std::vector<std::vector<double>> seconds(size.plans.size());
    for (const auto& plan : size.plans) TRY(time(plan.plan, calls));  // pages and routes are found
    double longest = 0;
    for (const auto& plan : size.plans) longest = std::max(longest, TRY(time(plan.plan, calls)));
    const double wanted = kSecondsForPlan / std::max(longest, 1e-9);
    const int rounds = static_cast<int>(std::clamp<double>(wanted, kRepeatsLeast, kRepeatsMost));
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < size.plans.size(); ++i)
        seconds[i].push_back(TRY(time(size.plans[i].plan, calls)));
    for (std::size_t i = 0; i < size.plans.size(); ++i)
      size.plans[i].measured = Seconds(median(seconds[i]));
    return {};
  }

 private:
  // Of the slowest rank; the same on all.
  Result<double> time(const CallPlan& plan, Calls& calls) {
    progress_(format("measuring {}", text(plan)));
    auto& group = *TRY(group_of(plan));
    TRY(group.barrier(CallMode::blocking).wait());
    const auto begin = std::chrono::steady_clock::now();
    TRY(calls.make(group));
    std::array<double, 1> seconds = {Seconds(std::chrono::steady_clock::now() - begin).count()};
    TRY(group
            .all_reduce(std::as_writable_bytes(std::span(seconds)), DataType::float64,
                        ReduceOp::max, CallMode::blocking)
            .wait());
    return seconds[0];
  }

  // A group in which every call that can be carried out by this plan is.
  Result<Communicator*> group_of(const CallPlan& plan) {
    for (const auto& [known, group] : groups_)
      if (known == plan) return group.get();
    std::vector<int> all(static_cast<std::size_t>(world_.size()));
    std::iota(all.begin(), all.end(), 0);
    groups_.emplace_back(plan, TRY(joined_.group(format("tune-{}", text(plan)), all, text(plan))));
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

std::vector<TunedSize> predict_all(Operation operation, std::span<const std::size_t> sizes,
                                   const GroupShape& group, const Costs& costs) {
  std::vector<TunedSize> result;
  for (const auto bytes : sizes) {
    TunedSize size{bytes, {}};
    const CallPlan choice = choose(operation, bytes, group, costs);
    for (const auto& plan : fitting_plans(operation, bytes, group))
      size.plans.push_back({.plan = plan,
                            .predicted = predict(plan, operation, bytes, group, costs),
                            .chosen = plan == choice});
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
