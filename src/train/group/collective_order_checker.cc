#include "train/group/collective_order_checker.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

std::int64_t action_code(CollectiveOrderChecker::OrderedAction action, int unit) {
  return static_cast<std::int64_t>(action) * (std::int64_t{1} << 32) + unit;
}

const std::int64_t kFinish = action_code(CollectiveOrderChecker::OrderedAction::finish, 0);

template <class Value>
bool all_equal(const std::vector<Value>& values) {
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
  if (std::exchange(first_step_, false)) {
    const auto codes = TRY(group_.all_gather(kFinish, "the check of the order of collectives"));
    if (!all_equal(codes)) return order_error(codes);
    return end_step(/*equal=*/true);
  }
  if (!group_.device().is_cpu()) return begin_comparison();
  return end_step(all_equal(TRY(group_.all_gather(static_cast<std::int64_t>(sum_.value()),
                                                  "the check of the order of collectives"))));
}

Result<void> CollectiveOrderChecker::end_step(bool equal) {
  if (!equal) return find_difference();
  actions_.clear();
  sum_ = Fnv1a(0);
  return {};
}

Result<void> CollectiveOrderChecker::begin_comparison() {
  if (checksums_.defined()) {  // of a step that no optimizer took
    const auto before = TRY(wait_checksums()).cpu();
    const auto* first = before.const_data_ptr<double>();
    TRY(compare({first, first + before.numel()}));
  }
  const auto options = at::TensorOptions(group_.device()).dtype(at::kDouble);
  checksums_ = at::zeros({group_.size()}, options);
  transfer_ = group_.all_gather(checksums_, at::full({1}, checksum(), options),
                                "the check of the order of collectives");
  return {};
}

Result<at::Tensor> CollectiveOrderChecker::wait_checksums() {
  if (checksums_.defined()) TRY(transfer_.wait_on_host());
  return std::exchange(checksums_, {});
}

Result<void> CollectiveOrderChecker::compare(const std::vector<double>& checksums) {
  return end_step(all_equal(checksums));
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
