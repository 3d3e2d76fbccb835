#include "train/group/collective_order_checker.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace lockstep::train {
namespace {

std::int64_t action_code(CollectiveOrderChecker::OrderedAction action, int unit) {
  return static_cast<std::int64_t>(action) * (std::int64_t{1} << 32) + unit;
}

const std::int64_t kFinish = action_code(CollectiveOrderChecker::OrderedAction::finish, 0);

bool all_equal(const std::vector<std::int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [&](auto one) { return one == values[0]; });
}

// "ranks 0 to 3", "ranks 0, 2".
std::string describe_rank_range(const std::vector<int>& ranks) {
  const auto count = static_cast<int>(ranks.size());
  if (ranks.back() - ranks.front() == count - 1)
    return format("ranks {} to {}", ranks.front(), ranks.back());
  return format("ranks {}", joined(ranks, ", "));
}

}  // namespace

CollectiveOrderChecker::CollectiveOrderChecker(const Mesh& mesh, std::vector<std::string> names)
    : group_(mesh.shard()), ranks_(mesh.shard_ranks()), names_(std::move(names)) {}

Result<void> CollectiveOrderChecker::record_action(OrderedAction action, int unit) {
  if (group_.size() == 1) return {};
  const auto code = action_code(action, unit);
  if (actions_.size() < kRecordedMax) actions_.push_back(code);
  sum_.add(static_cast<std::uint64_t>(code));
  if (!first_step_) return {};
  const auto codes = TRY(group_.all_gather(code, "the check of the order of collectives"));
  if (all_equal(codes)) return {};
  return order_error(codes);
}

Result<void> CollectiveOrderChecker::finish() {
  if (group_.size() == 1) return {};
  const bool first = std::exchange(first_step_, false);
  const auto mine = first ? kFinish : static_cast<std::int64_t>(sum_.value());
  const auto sums = TRY(group_.all_gather(mine, "the check of the order of collectives"));
  if (!all_equal(sums)) {
    if (first) return order_error(sums);
    return find_difference();
  }
  actions_.clear();
  sum_ = Fnv1a(0);
  return {};
}

// Compares one action of all ranks after the other, up to the first that differs. It runs only when
// an error is certain, so its time does not matter.
Result<void> CollectiveOrderChecker::find_difference() {
  const auto lengths = TRY(group_.all_gather(static_cast<std::int64_t>(actions_.size()),
                                             "the check of the order of collectives"));
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  for (std::size_t i = 0; i < longest; ++i) {
    const auto actions = TRY(group_.all_gather(i < actions_.size() ? actions_[i] : kFinish,
                                               "the check of the order of collectives"));
    if (!all_equal(actions)) return order_error(actions);
  }
  return Error{Code::invalid, format("{} do not run the same units in the same order; run every "
                                     "unit on all ranks alike",
                                     describe_rank_range(ranks_))};
}

std::string CollectiveOrderChecker::describe(std::int64_t action) const {
  const auto kind = static_cast<OrderedAction>(action >> 32);
  if (kind == OrderedAction::finish) return "has finished its step";
  const auto& name = names_[static_cast<std::size_t>(action & 0xffffffff)];
  return format("{} {}", kind == OrderedAction::gather ? "gathers" : "reduces the gradients of",
                name);
}

// The first rank and the first that differs from it.
Error CollectiveOrderChecker::order_error(const std::vector<std::int64_t>& actions) const {
  const auto other =
      std::find_if(actions.begin(), actions.end(), [&](auto one) { return one != actions[0]; });
  return Error{Code::invalid,
               format("{} do not run the same units in the same order: rank {} {}, rank {} {}; run "
                      "every unit on all ranks alike",
                      describe_rank_range(ranks_), ranks_.front(), describe(actions[0]),
                      ranks_[static_cast<std::size_t>(other - actions.begin())], describe(*other))};
}

}  // namespace lockstep::train
